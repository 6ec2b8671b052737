#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// All tensors of a call have one shape of at least one dimension, and any strides.
void softmax(const Tensor& x, const Tensor& y, int64_t dim);
void log_softmax(const Tensor& x, const Tensor& y, int64_t dim);
void softmax_backward(const Tensor& y, const Tensor& dy, const Tensor& dx, int64_t dim);
void log_softmax_backward(const Tensor& y, const Tensor& dy, const Tensor& dx, int64_t dim);

}  // namespace tessera::kernels::cpu
