#pragma once  // internal

#include "tensor/arguments/gated.h"
#include "tensor/tensor.h"

/// Gated linear units on CUDA devices, with the contract and the bits of tensor/cpu/layers/gated.h.
namespace tessera::kernels::cuda {

void gated(Gate f, const Tensor& gate, const Tensor& x, const Tensor& y);
void gated_backward(Gate f, const Tensor& gate, const Tensor& x, const Tensor& dy, const Tensor& dgate,
                    const Tensor& dx);

}  // namespace tessera::kernels::cuda
