#pragma once  // internal

#include "tensor/cuda/attention/arguments.cuh"

/// The launches of the kernels on tensor cores, for bf16 and f16.
namespace tessera::kernels::cuda::fused_attention {

/// Whether the kernels take the operands: at most 128 columns, all of them packed.
template <class T>
bool fits_tensor_cores(const Forward<T>& call) {
  return call.weights.width <= 128 && call.q.packed && call.k.packed && call.v.packed && call.out.packed;
}
template <class T>
bool fits_tensor_cores(const Backward<T>& call) {
  return call.weights.width <= 128 && call.q.packed && call.k.packed && call.v.packed && call.dout.packed &&
         call.dq.packed && call.dk.packed && call.dv.packed;
}

template <class T>
void flash_forward(const Forward<T>& call, int64_t batch, Device device);
template <class T>
void flash_backward(const Backward<T>& call, int64_t batch, Device device);

}  // namespace tessera::kernels::cuda::fused_attention
