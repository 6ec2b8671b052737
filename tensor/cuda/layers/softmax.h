#pragma once  // internal

#include "tensor/tensor.h"

/// Softmax on CUDA devices, with the contract of tensor/cpu/layers/softmax.h.
namespace tessera::kernels::cuda {

void softmax(const Tensor& x, const Tensor& y, int64_t dim);
void log_softmax(const Tensor& x, const Tensor& y, int64_t dim);
void softmax_backward(const Tensor& y, const Tensor& dy, const Tensor& dx, int64_t dim);
void log_softmax_backward(const Tensor& y, const Tensor& dy, const Tensor& dx, int64_t dim);

}  // namespace tessera::kernels::cuda
