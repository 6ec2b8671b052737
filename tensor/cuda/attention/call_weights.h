#pragma once  // internal

#include <vector>

#include "tensor/cuda/attention/arguments.cuh"

namespace tessera::kernels::cuda::fused_attention {

/// What a call says about the weights, for kernels that are launched before `uploaded` ends. Vectors too long
/// for a launch's arguments go to the device's memory by launches of their own, in chunks that are their
/// arguments: nothing is copied from the host's memory, and the host does not wait.
template <class A>
Weights<A> weights_of(const ops::AttentionCall& call, std::vector<Tensor>& uploaded);

SampleNumbers sample_numbers(std::span<const int64_t> samples, Device device, std::vector<Tensor>& uploaded);

}  // namespace tessera::kernels::cuda::fused_attention
