#pragma once  // internal

#include "tensor/cuda/attention/arguments.cuh"

/// The launches of the kernels on ordinary multiply-adds (kernels.cuh).
namespace tessera::kernels::cuda::fused_attention {

template <class T>
void plain_forward(const Forward<T>& call, int64_t batch, Device device);
template <class T>
void plain_backward(const Backward<T>& call, int64_t batch, Device device);

}  // namespace tessera::kernels::cuda::fused_attention
