#pragma once

#include "autograd/functions/layers/dropout.h"
#include "nn/layer.h"
#include "tensor/arguments/quantized_weight.h"

namespace tessera::nn {

/// Options of Embedding.
struct EmbeddingOptions {
  int64_t count = 0;  ///< rows: the size of the vocabulary, or the number of positions
  int64_t width = 0;  ///< features of a row
  init::Initializer weight_init = init::normal(0.02);  ///< GPT-2's
  int64_t padding_idx = -1;  ///< a row that starts at 0 and gets no gradient by look-ups; -1: none
  double scale = 1;          ///< factor of the rows looked up, such as sqrt(width) (Vaswani et al. 2017)

  /// `weight_init`, with zeros in the row `padding_idx`.
  init::Initializer initializer() const;
};

/// A table of vectors looked up by id: ids (...) i64 or i32, weight (count, width), result (..., width).
/// Throws IndexError for an id outside [0, count), naming the layer, the id, its position and the limit.
struct Embedding : Layer<Embedding, EmbeddingOptions> {
  Variable& weight = parameter("weight", {o.count, o.width}, o.initializer());  ///< (count, width)

  /// Declares the table on meta. Throws ConfigError for a padding_idx outside [-1, count).
  /// @{
  explicit Embedding(Options options);
  Embedding(int64_t count, int64_t width) : Embedding(Options{.count = count, .width = width}) {}
  /// @}
  std::string describe_options() const override;
  /// The rows of `ids`, times `scale`: ids (...) to (..., width).
  Variable forward(const Tensor& ids) const;
  /// dropout(rows of ids + addend) in one pass: ids (B, T), addend (T, width), such as position embeddings.
  /// Throws ConfigError for a layer with `padding_idx` or `scale`.
  Variable forward_add(const Tensor& ids, const Variable& addend, const DropoutMask& mask = {}) const;
  /// The table as the weight of an output layer without bias (Press and Wolf 2017): x (..., width) to
  /// (..., count).
  Variable logits(const Variable& x) const;
  /// The cross entropy of these logits, which are computed in chunks and never stored all at once.
  Variable cross_entropy(const Variable& x, const Tensor& targets) const;

  /// Gives `logits` and `cross_entropy` 8-bit integers of the table as it is now (ops::quantize_rows), for
  /// inference: they then throw AutogradError where gradients would be recorded. Look-ups read `weight`.
  /// After a later change of `weight` they throw ConfigError until this is called again; a change that does
  /// not raise the version (a store through `data()`) is not seen. Throws ConfigError
  /// for a table that is parametrised, DeviceError, DTypeError and ValueError as nn::quantize_weights.
  void quantize_logits();
  /// The table as such integers. Throws as `quantize_logits`.
  ops::QuantizedWeight quantized_table() const;
  /// These integers; null before `quantize_logits`.
  const ops::QuantizedWeight* quantized_logits_weight() const {
    return quantized_.defined() ? &quantized_ : nullptr;
  }

 protected:
  /// Copies the integers too, which layers may share: they do not change.
  void copy_options(const Module& original) override;

 private:
  const ops::QuantizedWeight& current_integers() const;
  bool is_current() const;

  ops::QuantizedWeight quantized_;
  Tensor quantized_from_;  // the table that the integers stand for, at this version
  uint64_t quantized_version_ = 0;

  template <class Lookup>
  Variable with_name_in_errors(const Lookup& lookup) const;
};

}  // namespace tessera::nn
