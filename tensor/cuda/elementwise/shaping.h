#pragma once  // internal

#include "tensor/tensor.h"

/// Elements that move, on CUDA devices, with the contract of tensor/cpu/shaping.h.
namespace tessera::kernels::cuda {

void flip(const Tensor& x, unsigned dims, const Tensor& out);
void triangle(const Tensor& x, int64_t diagonal, bool lower, const Tensor& out);

}  // namespace tessera::kernels::cuda
