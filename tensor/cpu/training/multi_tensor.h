#pragma once  // internal

#include <span>

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

// Every tensor is contiguous or undefined.

void power_sums(std::span<const Tensor> tensors, double p, const Tensor& sums);
/// `squares`: the sums of squares of the products, f64 of shape (tensors), as `power_sums` has them;
/// undefined where they are not wanted.
void scale_list(std::span<const Tensor> tensors, const Tensor& factor, const Tensor& first_nonfinite,
                const Tensor& squares);
void zero_list(std::span<const Tensor> tensors);
void clamp_list(std::span<const Tensor> tensors, double limit);

}  // namespace tessera::kernels::cpu
