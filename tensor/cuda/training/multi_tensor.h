#pragma once  // internal

#include <span>

#include "tensor/tensor.h"

/// Passes over many tensors on a CUDA device, with the contract of tensor/cpu/training/multi_tensor.h. Every
/// tensor is contiguous or undefined.
namespace tessera::kernels::cuda {

void power_sums(std::span<const Tensor> tensors, double p, const Tensor& sums);
/// Takes no sums of squares: the host would wait for them.
void scale_list(std::span<const Tensor> tensors, const Tensor& factor, const Tensor& first_nonfinite,
                const Tensor& squares);
void clamp_list(std::span<const Tensor> tensors, double limit);

}  // namespace tessera::kernels::cuda
