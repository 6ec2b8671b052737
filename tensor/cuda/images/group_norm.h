#pragma once  // internal

#include "tensor/tensor.h"

/// Group norm on CUDA devices, with the contract of tensor/cpu/images/group_norm.h.
namespace tessera::kernels::cuda {

void group_norm(double epsilon, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                const Tensor& rstd, const Tensor& y);
void group_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                         const Tensor& rstd, const Tensor& along, const Tensor& sums, const Tensor& dx);

}  // namespace tessera::kernels::cuda
