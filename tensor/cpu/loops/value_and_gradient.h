#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa_bf16.h"
#include "tensor/cpu/loops/elementwise_blocks.h"

namespace tessera::kernels::cpu {

/// y[i] = f(x[i]) and dx[i] = f'(x[i]) dy[i]; dx may be dy or x, and y may be dy.
using GradientBlock = void (*)(const void* x, const void* dy, void* y, void* dx, int64_t n);

// clang-format off
TESSERA_DECLARE_PER_ISA_BF16(
  // For the operations of TESSERA_UNARY_WITH_GRADIENT_OPS; `type` is f64, f32, bf16 or f16.
  GradientBlock gradient_block(UnaryOp op, DType type);
  // The value alone, for the same operations in f32, bf16 and f16: no buffer in f32.
  UnaryBlock direct_unary_block(UnaryOp op, DType type);
)
// clang-format on

}  // namespace tessera::kernels::cpu
