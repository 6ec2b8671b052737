#pragma once  // internal

#include <span>

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

// Every tensor is contiguous or undefined.

void power_sums(std::span<const Tensor> tensors, double p, const Tensor& sums);
void scale_list(std::span<const Tensor> tensors, const Tensor& factor, const Tensor& first_nonfinite);
void zero_list(std::span<const Tensor> tensors);
void clamp_list(std::span<const Tensor> tensors, double limit);

}  // namespace tessera::kernels::cpu
