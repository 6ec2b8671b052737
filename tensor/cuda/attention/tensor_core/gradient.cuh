#pragma once  // internal

#include "tensor/cuda/attention/tensor_core/tile_rows.cuh"

namespace tessera::kernels::cuda::fused_attention {

/// What the forward left of a query, and the sum of dout out.
struct QueryStatistics {
  float largest, log_sum, delta;

  /// A query that sees nothing has minus infinity as its largest score; 0 in its place gives weights of 0.
  __device__ QueryStatistics(float largest_score, float log_sum_of_weights, float sum)
      : largest(largest_score == -elementwise::Floating<float>::infinity ? 0.0f : largest_score),
        log_sum(log_sum_of_weights),
        delta(sum) {}
};

/// The final score of a pair, minus infinity where it is hidden, becomes its weight after dropout, and the
/// product of dout and v the gradient of the product of q and k.
template <bool extras>
__device__ __forceinline__ void differentiate(float& score, float& dweight, const Weights<float>& weights,
                                              const QueryStatistics& query, bool is_kept) {
  const float weight = approximate_exp2((score - query.largest - query.log_sum) * log2_e);
  if constexpr (extras) {
    const float factor = is_kept ? weights.kept : 0.0f;
    dweight = weight * (dweight * factor - query.delta) * weights.scale;
    score = weight * factor;
  } else {
    dweight = weight * (dweight - query.delta) * weights.scale;
    score = weight;
  }
}

}  // namespace tessera::kernels::cuda::fused_attention
