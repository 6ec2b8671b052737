#include "nn/layers/transformer/transformer.h"

#include <limits>

namespace tessera::nn {

TransformerLayerOptions TransformerOptions::layer() const {
  return {.d_model = d_model,
          .nhead = nhead,
          .dim_feedforward = dim_feedforward,
          .dropout = dropout,
          .activation = activation,
          .layer_norm_eps = layer_norm_eps,
          .batch_first = batch_first,
          .norm_first = norm_first,
          .bias = bias,
          .weight_init = init::xavier_uniform()};
}

Variable Transformer::forward(const Variable& src, const Variable& tgt, const TransformerArguments& a) const {
  const Variable memory =
      encoder(src, TransformerEncoderArguments{.src_mask = a.src_mask,
                                               .src_key_padding_mask = a.src_key_padding_mask,
                                               .is_causal = a.src_is_causal});
  return decoder(tgt, memory,
                 TransformerDecoderArguments{.tgt_mask = a.tgt_mask,
                                             .memory_mask = a.memory_mask,
                                             .tgt_key_padding_mask = a.tgt_key_padding_mask,
                                             .memory_key_padding_mask = a.memory_key_padding_mask,
                                             .tgt_is_causal = a.tgt_is_causal,
                                             .memory_is_causal = a.memory_is_causal});
}

Tensor Transformer::generate_square_subsequent_mask(int64_t size) {
  require<ValueError>(size >= 0, "generate_square_subsequent_mask: expected a size of at least 0, got ",
                      size);
  const Tensor mask = Tensor::zeros({size, size}, f32);
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = i + 1; j < size; ++j)
      mask.data<float>()[i * size + j] = -std::numeric_limits<float>::infinity();
  return mask;
}

}  // namespace tessera::nn
