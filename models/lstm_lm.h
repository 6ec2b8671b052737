#pragma once

#include "nn/layers/dropout.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/recurrent/recurrent.h"

/// A language model of LSTM layers, as Zaremba et al. 2014 train one. Legend: B batch, T time, C width, V
/// vocabulary, L layers.
namespace tessera::models {

/// The size of an LstmLm.
struct LstmLmOptions {
  int64_t vocabulary = 65;  ///< V, number of token ids
  int64_t width = 512;      ///< C, features of the embeddings and of every layer
  int64_t layers = 2;       ///< L
  double dropout = 0;       ///< of the embeddings and of each layer's results
};

/// Embedding, LSTM, linear layer: ids (B, T) i64 to logits (B, T, V). Inside, all is step after step, (T, B,
/// C), as the LSTM computes it.
struct LstmLm : nn::Layer<LstmLm, LstmLmOptions> {
  /// (V, C).
  nn::Embedding& embedding = add<nn::Embedding>("embedding", {.count = o.vocabulary, .width = o.width});
  nn::Dropout& drop = add<nn::Dropout>(
      "drop", {.probability = o.dropout, .samples = samples_along(1)});  ///< before and after the LSTM
  /// L layers, C wide.
  nn::LSTM& lstm = add<nn::LSTM>(
      "lstm", {.input_size = o.width, .hidden_size = o.width, .num_layers = o.layers, .dropout = o.dropout});
  nn::Linear& head = add<nn::Linear>("head", {.in = o.width, .out = o.vocabulary});  ///< C to V

  /// Throws ConfigError for sizes below 1 or a dropout outside [0, 1).
  explicit LstmLm(Options options) : Layer(options) {}
  std::string describe_options() const override;

  /// The logits, from the initial state 0. Throws IndexError for an id outside the vocabulary.
  Variable forward(const Tensor& ids) const;
  /// The same from a state, with the state after: text in chunks, or token by token.
  std::pair<Variable, nn::LstmState> forward_from(const Tensor& ids, const nn::LstmState& state) const;
  /// The mean cross entropy of the logits against `targets` (B, T); the logits are computed in chunks and
  /// never stored all at once.
  Variable loss(const Tensor& ids, const Tensor& targets) const;

 private:
  nn::LstmOutput features(const Tensor& ids, const nn::LstmState& state) const;
};

/// Parameters of the model, by the formula: 2 V C + V + L (8 C^2 + 8 C).
int64_t parameter_count(const LstmLmOptions& options);
/// Floating-point operations of the matrix products that train on one token: 6 (8 L C^2 + V C).
int64_t flops_per_token(const LstmLmOptions& options);

}  // namespace tessera::models
