#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa_bf16.h"
#include "tensor/types/dtype.h"

namespace tessera::kernels::cpu {

/// y[i] = 0 where words[i] is below `threshold`, else x[i] times `scale`; plus base[i], of y's type, unless
/// `base` is null. y may be x or base.
using DropoutBlock = void (*)(const void* x, const void* base, const uint32_t* words, uint32_t threshold,
                              double scale, int64_t n, void* y);

// The loop for x and y of these types: one floating type, or a half type and f32.
TESSERA_DECLARE_PER_ISA_BF16(DropoutBlock dropout_block(DType from, DType to);)

}  // namespace tessera::kernels::cpu
