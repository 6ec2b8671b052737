#pragma once  // internal

#include "tensor/tensor.h"

/// Group norm on contiguous CPU tensors: x, y, dy and dx (N, C, ...), mean and rstd (N, groups) of the
/// statistics' type, weight and bias (C) of that or of x's type, or undefined.
namespace tessera::kernels::cpu {

/// Writes mean, rstd and y.
void group_norm(double epsilon, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                const Tensor& rstd, const Tensor& y);

/// Writes dx, and the sums (N, C) of dy and of dy times the normalized x, of which weight's and bias'
/// gradients are the sums over N. Those of the three that are undefined are not written.
void group_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                         const Tensor& rstd, const Tensor& along, const Tensor& sums, const Tensor& dx);

}  // namespace tessera::kernels::cpu
