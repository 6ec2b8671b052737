#pragma once  // internal

#include "tensor/arguments/pooling.h"

/// Pooling and linear maps of planes on CUDA devices, with the contracts of tensor/cpu/images/max_pooling.h
/// and resampling.h.
namespace tessera::kernels::cuda {

void max_pool(const Tensor& x, const ops::WindowAxes& axes, const Tensor& values, const Tensor& indices);
void max_pool_backward(const Tensor& dy, const Tensor& indices, int64_t planes, const Tensor& dx);
void resample(const Tensor& x, const ops::ResamplingAxes& axes, const Tensor& y);
void resample_backward(const Tensor& dy, const ops::ResamplingAxes& axes, const Tensor& dx);

}  // namespace tessera::kernels::cuda
