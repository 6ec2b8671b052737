#pragma once  // internal

#include <cstdint>

#include "tensor/arguments/activation_function.h"
#include "tensor/cpu/isa.h"
#include "tensor/types/dtype.h"

/// The inner loops of activation functions with parameters, on one contiguous block of f64 or f32. Their
/// source is tensor/cpu/isa/activation_function.cpp.
namespace tessera::kernels::cpu {

/// y[i] = f(x[i]); y may be x.
using ActivationBlock = void (*)(const ActivationFunction& f, const void* x, void* y, int64_t n);
/// dx[i] = dy[i] f'(x[i]); dx may be x or dy.
using ActivationGradientBlock = void (*)(const ActivationFunction& f, const void* x, const void* dy, void* dx,
                                         int64_t n);

/// y[i] = x[i] where it is above 0, else slope[i] x[i].
using SlopedBlock = void (*)(const void* x, const void* slope, void* y, int64_t n);
/// dx[i] = dy[i] where x[i] is above 0, else slope[i] dy[i].
using SlopedGradientBlock = void (*)(const void* x, const void* slope, const void* dy, void* dx, int64_t n);

// clang-format off
TESSERA_DECLARE_PER_ISA(
  // `type` is f64 or f32.
  ActivationBlock activation_block(ActivationKind kind, DType type);
  ActivationGradientBlock activation_gradient_block(ActivationKind kind, DType type);
  SlopedBlock sloped_block(DType type);
  SlopedGradientBlock sloped_gradient_block(DType type);
  // The gradient at the slope, before it is added up: 0 where x is above 0, else x dy. Arguments (x, dy, out).
  SlopedBlock slope_gradient_block(DType type);
)
// clang-format on

}  // namespace tessera::kernels::cpu
