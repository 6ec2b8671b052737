#pragma once

#include <string>
#include <vector>

#include "nn/layers/attention.h"
#include "nn/layers/containers.h"
#include "nn/layers/dropout.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/normalization.h"
#include "tensor/arguments/transformer_step.h"

/// GPT-2's architecture and initial values (weights normal(0.02), biases 0), as nanoGPT trains it. Legend: B
/// batch, T time, C width, V vocabulary.
namespace tessera::models {

/// The size and the variants of a Gpt; by default those of `nano_cpu(65)`.
struct GptOptions {
  int64_t vocabulary = 65;  ///< V, number of token ids
  int64_t block_size = 64;  ///< the longest context, in tokens
  int64_t layers = 4;       ///< blocks
  int64_t heads = 4;        ///< of attention in a block; divides the width
  int64_t width = 128;      ///< C, features of the residual stream
  double dropout = 0;       ///< of the embeddings, the attention probabilities, and both branches of a block
  bool bias = false;        ///< in linear layers and layer norms
  bool qkv_bias = false;    ///< in the queries, keys and values
  bool tie_weights = true;  ///< the head is the token embedding; else its own, without bias
};

/// Options of Mlp.
struct MlpOptions {
  int64_t width = 0;                                       ///< C
  double dropout = 0;                                      ///< of the result
  bool bias = true;                                        ///< in both linear layers
  init::Initializer projection_init = init::normal(0.02);  ///< of the weight of `proj`
};

/// C -> 4C, GELU, 4C -> C, dropout.
struct Mlp : nn::Layer<Mlp, MlpOptions> {
  /// C -> 4C.
  nn::Linear& fc = add<nn::Linear>("fc", {.in = o.width,
                                          .out = 4 * o.width,
                                          .bias = o.bias,
                                          .weight_init = init::normal(0.02),
                                          .bias_init = init::zeros()});
  /// 4C -> C.
  nn::Linear& proj = add<nn::Linear>("proj", {.in = 4 * o.width,
                                              .out = o.width,
                                              .bias = o.bias,
                                              .weight_init = o.projection_init,
                                              .bias_init = init::zeros()});
  nn::Dropout& drop = add<nn::Dropout>("drop", o.dropout);  ///< of the result

  /// Throws ConfigError for a dropout outside [0, 1).
  explicit Mlp(Options options) : Layer(std::move(options)) {}
  /// x (..., C) to (..., C).
  Variable forward(const Variable& x) const;
  /// The same before the dropout, for a function that applies it in its own pass.
  nn::BeforeDropout forward_before_dropout(const Variable& x) const;

 private:
  Variable project(const Variable& x) const;
};

/// Options of Block.
struct BlockOptions {
  int64_t width = 0;     ///< C
  int64_t heads = 1;     ///< of attention; divides `width`
  double dropout = 0;    ///< of the attention probabilities, and of the results of attention and MLP
  bool bias = true;      ///< in layer norms and linear layers, except the queries, keys and values
  bool qkv_bias = true;  ///< in the queries, keys and values
  init::Initializer projection_init = init::normal(0.02);  ///< of the last weight of attention and of the MLP
};

/// x + attention(norm(x)), then + mlp(norm(x)). x (B, T, C).
struct Block : nn::Layer<Block, BlockOptions> {
  nn::LayerNorm& ln_1 = add<nn::LayerNorm>("ln_1", o.width, o.bias);  ///< before attention
  /// Attention, in the first branch.
  nn::CausalSelfAttention& attn =
      add<nn::CausalSelfAttention>("attn", {.width = o.width,
                                            .heads = o.heads,
                                            .dropout = o.dropout,
                                            .qkv_bias = o.qkv_bias,
                                            .projection_bias = o.bias,
                                            .projection_init = o.projection_init});
  nn::LayerNorm& ln_2 = add<nn::LayerNorm>("ln_2", o.width, o.bias);  ///< before the MLP
  /// The MLP, in the second branch.
  Mlp& mlp = add<Mlp>(
      "mlp", {.width = o.width, .dropout = o.dropout, .bias = o.bias, .projection_init = o.projection_init});

  /// Throws ConfigError when `heads` does not divide `width`, or for a dropout outside [0, 1).
  explicit Block(Options options) : Layer(std::move(options)) {}
  /// The whole sequence at once: x (B, T, C) to (B, T, C).
  Variable forward(const Variable& x) const;
  /// Cached decoding: x holds the T positions after those of the cache, or is (N, C) without padding; their
  /// keys and values are appended. Throws as nn::CausalSelfAttention with a cache.
  Variable forward_cached(const Variable& x, nn::KeyValueCache& cache,
                          std::span<const int64_t> counts = {}) const;

  /// Whether `step` computes what the block's calls would: no hooks, no dropout, weights that its kernel
  /// takes.
  bool takes_step() const;
  /// Cached decoding of one position of each row by one kernel: x (B, C) f32 becomes the result. Gradients
  /// are not recorded. Throws as `ops::transformer_step`.
  void step(const Tensor& x, nn::KeyValueCache& cache) const;

 private:
  ops::TransformerStepWeights step_weights() const;
};

/// For cached decoding: a key/value cache per block. All have the same lengths.
struct GptCache {
  std::vector<nn::KeyValueCache> blocks;  ///< in the order of `Gpt::blocks`
  /// Positions stored so far, in the longest row.
  int64_t length() const { return blocks.empty() ? 0 : blocks.front().length(); }
  /// As those of nn::KeyValueCache, in every block.
  /// @{
  void truncate(int64_t length) {
    for (nn::KeyValueCache& block : blocks) block.truncate(length);
  }
  void truncate(std::span<const int64_t> lengths) {
    for (nn::KeyValueCache& block : blocks) block.truncate(lengths);
  }
  void clear() { truncate(0); }
  void reorder(std::span<const int64_t> rows) {
    for (nn::KeyValueCache& block : blocks) block.reorder(rows);
  }
  /// @}
};

/// The decoder-only transformer: ids (B, T) i64 to logits (B, T, V).
struct Gpt : nn::Layer<Gpt, GptOptions> {
  /// The tokens' embeddings (V, C); the head's weight too where it is tied.
  nn::Embedding& wte = add<nn::Embedding>("wte", {.count = o.vocabulary, .width = o.width});
  /// The positions' embeddings (block_size, C).
  nn::Embedding& wpe = add<nn::Embedding>("wpe", {.count = o.block_size, .width = o.width});
  nn::Dropout& drop = add<nn::Dropout>("drop", o.dropout);               ///< of the sum of both embeddings
  nn::ModuleList<Block>& blocks = add<nn::ModuleList<Block>>("blocks");  ///< from the input on
  nn::LayerNorm& ln_f = add<nn::LayerNorm>("ln_f", o.width, o.bias);     ///< after the last block
  /// The layer from features to logits; null where the head is tied.
  nn::Linear* head =
      o.tie_weights
          ? nullptr
          : &add<nn::Linear>(
                "head",
                {.in = o.width, .out = o.vocabulary, .bias = false, .weight_init = init::normal(0.02)});

  /// Throws ValueError, naming the field, for sizes below 1, heads that do not divide the width, or a dropout
  /// outside [0, 1).
  explicit Gpt(Options options);

  /// Throws ShapeError when T passes the block size, IndexError for an id outside the vocabulary.
  Variable forward(const Tensor& ids) const;
  /// The mean cross entropy of the logits against `targets` (B, T); the logits are computed in chunks and
  /// never stored all at once.
  Variable loss(const Tensor& ids, const Tensor& targets) const;
  /// Cached decoding: `ids` (B, T) are the positions after those in `cache`, or `counts[b]` of them in row b,
  /// whose other logits mean nothing. Gradients are not recorded. Throws ShapeError past the block size.
  Variable forward_cached(const Tensor& ids, GptCache& cache, std::span<const int64_t> counts = {}) const;

  /// The logits (B, V) of the position after each row's, for generating text: `ids` (N) hold `counts[b]` ids
  /// of row b after those of the rows before, or one of each row, and are appended to the cache. Computes the
  /// given positions alone, without padding, and the head for the last one of each row. Gradients are not
  /// recorded. Throws ShapeError past the block size, ValueError for counts that are not one per row and at
  /// least 1.
  Variable next_logits(const Tensor& ids, GptCache& cache, std::span<const int64_t> counts = {}) const;

  /// The model as a list of layers from ids to logits: both embeddings with their sum, the blocks, the last
  /// norm, the head; `layers + 3` of them.
  std::vector<nn::LayerSpec> to_layers() const;
  /// The same up to the last norm, and a loss that has the head in it, as `loss` computes it.
  nn::LayeredModel to_layered_model() const;

  /// From here on the linear layers and the head have their weights as 8-bit integers
  /// (nn/quantize_weights.h), for inference; look-ups keep the embeddings as they are. Throws as
  /// nn::quantize_weights, also for a tied head, and then changes nothing.
  void quantize_weights();

  /// An empty cache for `batch` sequences of up to `capacity` positions; 0: the block size.
  GptCache make_cache(int64_t batch, int64_t capacity = 0) const;

 private:
  Variable embed(const Tensor& ids, int64_t first_position) const;
  Variable embed_cached(const Tensor& ids, const nn::KeyValueCache& cache,
                        std::span<const int64_t> counts) const;
  Variable embed_packed(const Tensor& ids, const nn::KeyValueCache& cache,
                        std::span<const int64_t> counts) const;
  void check_cache(const GptCache& cache, std::span<const int64_t> counts) const;
  Variable run_blocks(const Variable& x, GptCache& cache, std::span<const int64_t> counts) const;
  Variable features(const Tensor& ids) const;
  Variable logits(const Variable& features) const;
  const nn::Module* head_module() const;
};

/// Floating-point operations to train on one token, by nanoGPT's estimate (Chowdhery et al. 2022, appendix
/// B): 6 (P - positions) + 12 L C T.
int64_t flops_per_token(const GptOptions& options);
/// Parameters of the model, by the formula.
int64_t parameter_count(const GptOptions& options);

}  // namespace tessera::models
