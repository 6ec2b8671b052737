#pragma once

#include "autograd/functions/indexing/embedding_bag.h"
#include "nn/layers/embedding.h"

namespace tessera::nn {

/// Options of EmbeddingBag.
struct EmbeddingBagLayerOptions {
  int64_t count = 0;                                  ///< rows: the size of the vocabulary
  int64_t width = 0;                                  ///< features of a row
  BagMode mode = BagMode::mean;                       ///< how the rows of a bag become one
  bool include_last_offset = false;                   ///< the last offset is the end of the last bag
  int64_t padding_idx = -1;                           ///< an id that counts for nothing; -1: none
  init::Initializer weight_init = init::normal(1.0);  ///< PyTorch's
};

/// Sums, means or maxima of rows of a table, bag by bag, without the rows in between: `embedding_bag`. Throws
/// as that, naming the layer where an id is outside the table.
struct EmbeddingBag : Layer<EmbeddingBag, EmbeddingBagLayerOptions> {
  /// (count, width); the row `padding_idx` starts at 0.
  Variable& weight = parameter(
      "weight", {o.count, o.width},
      EmbeddingOptions{
          .count = o.count, .width = o.width, .weight_init = o.weight_init, .padding_idx = o.padding_idx}
          .initializer());

  /// Declares the table on meta. Throws ConfigError for a padding_idx outside [-1, count).
  explicit EmbeddingBag(Options options);
  std::string describe_options() const override { return text(o.count, " x ", o.width); }
  /// ids (N,) with offsets (B,), or ids (B, L), to (B, width). `per_sample_weights` of ids' shape multiply
  /// the rows of a sum.
  Variable forward(const Tensor& ids, const Tensor& offsets = {},
                   const Variable& per_sample_weights = {}) const;
};

}  // namespace tessera::nn
