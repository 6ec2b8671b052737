#pragma once  // internal

#include "tensor/arguments/special_function.h"
#include "tensor/tensor.h"

/// Special functions on CPU tensors of any strides; bf16 and f16 are computed in f32. Inputs have been
/// expanded to the output's shape.
namespace tessera::kernels::cpu {

/// y = f(x); `order` is polygamma's.
void special_function(SpecialFunction f, int64_t order, const Tensor& x, const Tensor& y);
/// y = f(a, b).
void special_function_of_two(SpecialFunctionOfTwo f, const Tensor& a, const Tensor& b, const Tensor& y);

}  // namespace tessera::kernels::cpu
