#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"
#include "tensor/types/dtype.h"

namespace tessera::kernels::cpu {

TESSERA_DECLARE_PER_ISA(
    /// The sum of |x|^p over n elements, or the largest |x| for p = infinity.
    double power_sum(DType dtype, const void* x, int64_t n, double p);
    /// x *= factor. Returns whether every product is finite.
    bool scale_block(DType dtype, void* x, int64_t n, double factor);
    /// x = min(max(x, -limit), limit).
    void clamp_block(DType dtype, void* x, int64_t n, double limit);)

}  // namespace tessera::kernels::cpu
