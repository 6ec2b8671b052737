#pragma once

#include "nn/layers/attention/key_value_cache.h"
#include "nn/layers/linear.h"

namespace tessera::nn {

/// Options of MultiheadAttention, in PyTorch's order and with its defaults; then those that it has not.
struct MultiheadAttentionOptions {
  int64_t embed_dim = 0;       ///< E, features of queries and of the result
  int64_t num_heads = 1;       ///< H, divides `embed_dim`; a head is D = E / H wide
  double dropout = 0;          ///< probability in [0, 1) of a weight becoming 0, in training
  bool bias = true;            ///< in the input and output projections
  bool add_bias_kv = false;    ///< appends a learned key and a learned value to the sequence
  bool add_zero_attn = false;  ///< appends a key and a value of zeros
  int64_t kdim = 0;            ///< features of keys; 0: `embed_dim`
  int64_t vdim = 0;            ///< features of values; 0: `embed_dim`
  bool batch_first = false;    ///< inputs and results are (B, T, E) instead of (T, B, E)

  int64_t num_kv_heads = 0;               ///< grouped queries: heads of k and v, divides H; 0: H
  std::optional<int64_t> window = {};     ///< as AttentionOptions::window
  std::vector<double> alibi_slopes = {};  ///< as AttentionOptions::alibi_slopes; see `alibi_slopes(heads)`
  /// Of the output projection: PyTorch's default, uniform within 1/sqrt(in).
  init::Initializer out_proj_init = init::kaiming_uniform(2.23606797749979);
};

/// What a call of MultiheadAttention takes besides query, key and value. Legend: L queries, S keys.
struct MultiheadAttentionArguments {
  /// (B, S), or (S) without a batch: bool, true at the keys to ignore (PyTorch's convention, the opposite of
  /// `scaled_dot_product_attention`), or floating, added to the scaled products.
  Tensor key_padding_mask = {};
  /// Whether the weights are returned too. They are computed apart and stored, B H L S of them; without them
  /// memory grows with S alone.
  bool need_weights = false;
  /// (L, S), or (B H, L, S): bool, true where a query must not attend, or floating, added.
  Variable attn_mask = {};
  bool average_attn_weights = true;  ///< the weights' mean over the heads instead of each head's
  /// A query attends to no later position; applies besides the masks. PyTorch has it as a hint that
  /// `attn_mask` is the causal mask, which is then not needed here.
  bool is_causal = false;

  /// Calls `visit(attn_mask)`: by this, a module's hooks see the Variable (nn/layer.h).
  template <class Visit>
  void for_each_variable(const Visit& visit) {
    visit(attn_mask);
  }
};

/// The result of MultiheadAttention.
struct MultiheadAttentionResult {
  Variable output;        ///< (L, B, E), or (B, L, E) with `batch_first`, or (L, E) without a batch
  Variable weights = {};  ///< (B, L, S), of each head (B, H, L, S); undefined unless they were asked for

  /// Calls `visit(x)` for both Variables.
  template <class Visit>
  void for_each_variable(const Visit& visit) {
    visit(output);
    visit(weights);
  }
};

/// Multi-head attention (Vaswani et al. 2017) with the parameters and names of PyTorch's
/// nn.MultiheadAttention: softmax(q k^T / sqrt(D) + mask) v per head, between projections of the inputs and
/// one of the result. It runs on the fused kernels, which store no L x S array. Weights start as PyTorch's.
struct MultiheadAttention : Layer<MultiheadAttention, MultiheadAttentionOptions> {
  /// Heads of keys and values, and the features of all of them together.
  /// @{
  int64_t kv_heads() const { return o.num_kv_heads > 0 ? o.num_kv_heads : o.num_heads; }
  int64_t kv_width() const { return o.embed_dim / o.num_heads * kv_heads(); }
  /// @}

  /// (E + 2 kv_width, E): the projections of queries, keys and values; null where keys or values have other
  /// features.
  Variable* in_proj_weight;
  /// (E, E), (kv_width, kdim) and (kv_width, vdim) in that case; else null.
  /// @{
  Variable* q_proj_weight;
  Variable* k_proj_weight;
  Variable* v_proj_weight;
  /// @}
  Variable* in_proj_bias;  ///< (E + 2 kv_width); null without bias
  Variable* bias_k;        ///< (1, 1, kv_width), with `add_bias_kv`; else null
  Variable* bias_v;        ///< the same of values
  Linear& out_proj;        ///< E -> E

  /// Throws ConfigError, naming the field, where heads do not divide, for sizes below 1, a dropout outside
  /// [0, 1) or a window below 1.
  /// @{
  explicit MultiheadAttention(Options options);
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, double dropout = 0)
      : MultiheadAttention(Options{.embed_dim = embed_dim, .num_heads = num_heads, .dropout = dropout}) {}
  /// @}
  std::string describe_options() const override;

  /// Queries (L, B, E), keys (S, B, kdim) and values (S, B, vdim); with `batch_first` (B, L, E) and so on;
  /// without a batch (L, E) and so on. Throws ShapeError, naming the layer, for inputs or masks of other
  /// shapes. The weights of a query whose keys are all hidden are NaN, as in PyTorch; its output is that of a
  /// result of zeros.
  MultiheadAttentionResult forward(const Variable& query, const Variable& key, const Variable& value,
                                   const MultiheadAttentionArguments& arguments = {}) const;
  /// A sequence's attention to itself, from one product.
  MultiheadAttentionResult forward(const Variable& x,
                                   const MultiheadAttentionArguments& arguments = {}) const;
  /// Decoding: x (B, T, E), also without `batch_first`, holds the T positions after those of the cache, or
  /// `counts[b]` of them in row b; each attends to the positions up to its own, and to no others. Throws
  /// AutogradError outside NoGrad, as KeyValueCache::append, ConfigError with `add_bias_kv` or
  /// `add_zero_attn`.
  Variable forward_cached(const Variable& x, KeyValueCache& cache,
                          std::span<const int64_t> counts = {}) const;
  /// A cache for this layer.
  KeyValueCache make_cache(int64_t batch, int64_t capacity) const;

 private:
  bool is_packed() const;
  AttentionOptions attention_options(bool causal) const;
  Variable batch_major(const Variable& x, int64_t features, const char* name) const;
  Variable split_heads(const Variable& x, int64_t heads) const;
  Variable with_extra_keys(const Variable& x, const Variable* bias) const;
  Variable merged_mask(const MultiheadAttentionArguments& arguments, const Shape& scores) const;
  MultiheadAttentionResult attend(const Variable& q, const Variable& k, const Variable& v,
                                  const MultiheadAttentionArguments& arguments) const;
  MultiheadAttentionResult finish(const Variable& heads, const Variable& weights, bool has_batch) const;
};

}  // namespace tessera::nn
