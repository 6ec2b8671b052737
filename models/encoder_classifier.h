#pragma once

#include "nn/layers/containers.h"
#include "nn/layers/embedding.h"
#include "nn/layers/positions.h"
#include "nn/layers/transformer/encoder.h"

/// An encoder that classifies texts, such as reviews. Legend: B batch, T time, C width.
namespace tessera::models {

/// The size of an EncoderClassifier. The defaults are those of the IMDB classifier; `imdb_encoder()` has the
/// configuration that it is trained with.
struct EncoderClassifierOptions {
  int64_t vocabulary = 50265;  ///< token ids; RoBERTa's tokenizer
  int64_t embed_dim = 512;     ///< C, features
  int64_t hidden_dim = 2048;   ///< features within the feed-forward blocks and the classifier
  int64_t max_len = 1024;      ///< the longest text, in tokens
  int64_t num_heads = 8;       ///< of attention, divides C
  int64_t num_layers = 8;      ///< of the encoder
  double dropout = 0.1;        ///< of the embeddings, the encoder and the classifier
  int64_t classes = 2;         ///< features of the result
};

/// Token embeddings with sinusoidal positions, encoder layers (nn::TransformerEncoderLayer), the mean over
/// all T positions, and a classifier of two linear layers: ids (B, T) i64 to logits (B, classes).
struct EncoderClassifier : nn::Layer<EncoderClassifier, EncoderClassifierOptions> {
  /// The tokens' vectors (vocabulary, C), normal(1) at first.
  nn::Embedding& embedding = add<nn::Embedding>(
      "embedding", {.count = o.vocabulary, .width = o.embed_dim, .weight_init = init::normal(1)});
  /// The positions, and the dropout of their sum with the embeddings.
  nn::PositionalEncoding& pos_encoder = add<nn::PositionalEncoding>(
      "pos_encoder", {.d_model = o.embed_dim, .dropout = o.dropout, .max_len = o.max_len});
  /// The layers of the encoder.
  nn::TransformerEncoder& encoder =
      add<nn::TransformerEncoder>("encoder", {.layer = {.d_model = o.embed_dim,
                                                        .nhead = o.num_heads,
                                                        .dim_feedforward = o.hidden_dim,
                                                        .dropout = o.dropout,
                                                        .batch_first = true},
                                              .num_layers = o.num_layers});
  nn::Sequential& classifier = add<nn::Sequential>("classifier");  ///< C -> hidden, ReLU, dropout, -> classes

  /// Throws ConfigError, naming the field, for sizes below 1, heads that do not divide the width, or a
  /// dropout outside [0, 1).
  explicit EncoderClassifier(Options options);

  /// `src_key_padding_mask` (B, T) bool is true at padding, whose keys then have no weight; the mean counts
  /// padded positions too. Throws ShapeError for more than max_len tokens or a mask of another shape,
  /// IndexError for an id outside the vocabulary.
  Variable forward(const Tensor& ids, const Tensor& src_key_padding_mask = {}) const;
};

/// The configuration of the IMDB classifier's training: width 256, 8 heads, 6 layers, hidden 1024, dropout
/// 0.2; 17,871,618 parameters.
EncoderClassifierOptions imdb_encoder();
/// Parameters of the model, by the formula.
int64_t parameter_count(const EncoderClassifierOptions& options);

}  // namespace tessera::models
