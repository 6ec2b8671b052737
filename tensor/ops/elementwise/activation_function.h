#pragma once

#include "tensor/arguments/activation_function.h"
#include "tensor/tensor.h"

/// Activation functions with parameters, as one pass over memory each, and their derivatives. The functions
/// that programs call, with checked parameters, are in tensor/composed/activations.h. All throw DTypeError
/// for dtypes that are not floating.
namespace tessera::ops {

/// f(x), of x's shape and dtype.
Tensor activation(const ActivationFunction& f, const Tensor& x);
/// x = f(x). Throws ValueError where elements of x overlap.
void activation_(const ActivationFunction& f, const Tensor& x);
/// dy f'(x). Shapes and dtypes must be equal.
Tensor activation_backward(const ActivationFunction& f, const Tensor& x, const Tensor& dy);

/// x where it is above 0, else slope x; `slope` broadcasts to x's shape. Throws ShapeError, and DTypeError
/// for different dtypes.
Tensor sloped_relu(const Tensor& x, const Tensor& slope);
/// The gradient at x: dy where x is above 0, else slope dy.
Tensor sloped_relu_backward(const Tensor& x, const Tensor& slope, const Tensor& dy);
/// The gradient at a slope of x's shape: 0 where x is above 0, else x dy.
Tensor slope_backward(const Tensor& x, const Tensor& dy);

}  // namespace tessera::ops
