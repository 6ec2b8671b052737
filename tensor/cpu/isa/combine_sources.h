#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/combine_sources.h"
#include "tensor/cpu/isa.h"
#include "tensor/types/dtype.h"

namespace tessera::kernels::cpu {

TESSERA_DECLARE_PER_ISA(
    /// out[i] = sources[0][first + i] combined with sources[1][first + i], and so on, for i < n.
    void combine_block(DType dtype, Combination combination, const void* const* sources, int count,
                       int64_t first, void* out, int64_t n);)

}  // namespace tessera::kernels::cpu
