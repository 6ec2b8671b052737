#include "nn/layers/embedding_bag.h"

namespace tessera::nn {

EmbeddingBag::EmbeddingBag(Options options) : Layer(std::move(options)) {
  require<ConfigError>(o.padding_idx >= -1 && o.padding_idx < o.count,
                       "nn::EmbeddingBag: expected a padding_idx in [-1, ", o.count, "), got ",
                       o.padding_idx);
}

Variable EmbeddingBag::forward(const Tensor& ids, const Tensor& offsets,
                               const Variable& per_sample_weights) const {
  try {
    return embedding_bag(
        ids, weight, offsets,
        {.mode = o.mode, .include_last_offset = o.include_last_offset, .padding_idx = o.padding_idx},
        per_sample_weights);
  } catch (const IndexError& error) {
    throw IndexError(text("nn::EmbeddingBag '", full_name(), "': ", error.what()));
  }
}

}  // namespace tessera::nn
