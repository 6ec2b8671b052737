#pragma once

#include "nn/layers/attention/key_value_cache.h"
#include "nn/layers/dropout.h"
#include "nn/layers/linear.h"

namespace tessera::nn {

/// Options of CausalSelfAttention. Legend: C width, D = C / heads.
struct CausalSelfAttentionOptions {
  int64_t width = 0;                                   ///< C, features of the input and of the result
  int64_t heads = 1;                                   ///< divides `width`
  double dropout = 0;                                  ///< of the attention probabilities and of the result
  bool qkv_bias = true;                                ///< in the product for queries, keys and values
  bool projection_bias = true;                         ///< in the projection of the result
  init::Initializer weight_init = init::normal(0.02);  ///< of queries, keys and values; GPT-2's
  init::Initializer projection_init = init::normal(0.02);  ///< of the projection's weight
};

/// Multi-head self-attention in which position t sees positions 0..t (Vaswani et al. 2017): one product for
/// queries, keys and values, softmax(q k^T / sqrt(D)) v per head, and a projection. x (B, T, C) to (B, T, C).
/// Biases start at 0.
struct CausalSelfAttention : Layer<CausalSelfAttention, CausalSelfAttentionOptions> {
  /// C -> 3 C: queries, keys and values side by side.
  Linear& c_attn = add<Linear>("c_attn", {.in = o.width,
                                          .out = 3 * o.width,
                                          .bias = o.qkv_bias,
                                          .weight_init = o.weight_init,
                                          .bias_init = init::zeros()});
  /// C -> C: the projection of the heads' results.
  Linear& c_proj = add<Linear>("c_proj", {.in = o.width,
                                          .out = o.width,
                                          .bias = o.projection_bias,
                                          .weight_init = o.projection_init,
                                          .bias_init = init::zeros()});

  /// Throws ConfigError when `heads` does not divide `width`, or for a dropout outside [0, 1).
  explicit CausalSelfAttention(Options options);
  std::string describe_options() const override { return text(o.heads, " heads of ", o.width / o.heads); }
  /// The whole sequence at once: x (B, T, C) to (B, T, C).
  Variable forward(const Variable& x) const;
  /// The same before the result's dropout, for a function that applies it in its own pass.
  BeforeDropout forward_before_dropout(const Variable& x) const;
  /// Cached decoding: x holds the T positions after those of the cache, or `counts[b]` of them in row b; they
  /// are appended. x may be (N, C) too: the positions of all rows without padding, as
  /// nn::KeyValueCache::attend_packed takes them. Throws ShapeError when they exceed the cache's capacity,
  /// AutogradError outside NoGrad.
  Variable forward_cached(const Variable& x, KeyValueCache& cache,
                          std::span<const int64_t> counts = {}) const;

 private:
  BeforeDropout attend(const Variable& x) const;
  BeforeDropout attend_cached(const Variable& x, KeyValueCache& cache, std::span<const int64_t> counts) const;
  BeforeDropout project(const Variable& heads) const;
};

}  // namespace tessera::nn
