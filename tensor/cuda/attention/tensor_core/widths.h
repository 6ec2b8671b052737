#pragma once  // internal

#include "tensor/cuda/attention/arguments.cuh"

namespace tessera::kernels::cuda::fused_attention {

/// Calls `body.operator()<width, extras>()` with the kernel's columns, of which those beyond the heads' are
/// zeros, and whether it takes more than the range of visible keys.
template <class Body>
void with_kernel(const Weights<float>& weights, const Body& body) {
  const auto with_extras = [&]<int width>() {
    weights.has_extras() ? body.template operator()<width, true>() : body.template operator()<width, false>();
  };
  if (weights.width <= 32)
    with_extras.template operator()<32>();
  else if (weights.width <= 64)
    with_extras.template operator()<64>();
  else
    with_extras.template operator()<128>();
}

}  // namespace tessera::kernels::cuda::fused_attention
