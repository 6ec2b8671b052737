#pragma once  // internal

#include <cstdint>

#include "tensor/arguments/special_function.h"
#include "tensor/cpu/isa.h"
#include "tensor/types/dtype.h"

/// The inner loops of special functions, on one contiguous block of f64 or f32. Their source is
/// tensor/cpu/isa/special_function.cpp.
namespace tessera::kernels::cpu {

/// y[i] = f(x[i]); `order` is polygamma's. y may be x.
using SpecialBlock = void (*)(int64_t order, const void* x, void* y, int64_t n);
/// y[i] = f(a[i], b[i]); y may be an operand.
using SpecialBlockOfTwo = void (*)(const void* a, const void* b, void* y, int64_t n);

// clang-format off
TESSERA_DECLARE_PER_ISA(
  // `type` is f64 or f32.
  SpecialBlock special_block(SpecialFunction f, DType type);
  SpecialBlockOfTwo special_block_of_two(SpecialFunctionOfTwo f, DType type);
)
// clang-format on

}  // namespace tessera::kernels::cpu
