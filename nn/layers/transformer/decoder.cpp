#include "nn/layers/transformer/decoder.h"

namespace tessera::nn {

Variable TransformerDecoderLayer::forward(const Variable& tgt, const Variable& memory,
                                          const TransformerDecoderArguments& a) const {
  const auto before = [this](const Variable& result, const Dropout& drop) {
    return BeforeDropout{result, detail::branch_mask(drop, result, o.batch_first)};
  };
  const auto attend_to_targets = [&](const Variable& x) {
    const MultiheadAttentionArguments masks{
        .key_padding_mask = a.tgt_key_padding_mask, .attn_mask = a.tgt_mask, .is_causal = a.tgt_is_causal};
    return before(self_attn(x, masks).output, dropout1);
  };
  const auto attend_to_memory = [&](const Variable& x) {
    const MultiheadAttentionArguments masks{.key_padding_mask = a.memory_key_padding_mask,
                                            .attn_mask = a.memory_mask,
                                            .is_causal = a.memory_is_causal};
    return before(multihead_attn(x, memory, memory, masks).output, dropout2);
  };
  const auto feed = [&](const Variable& x) {
    return before(detail::feed_forward(x, linear1, dropout, linear2, o), dropout3);
  };
  if (o.norm_first) {
    const auto [x_1, normal_1] = norm1.fork_and_norm(tgt);
    const auto [x_2, normal_2] = norm2.add_dropout_and_norm(x_1, attend_to_targets(normal_1));
    const auto [x_3, normal_3] = norm3.add_dropout_and_norm(x_2, attend_to_memory(normal_2));
    return add_dropout(x_3, feed(normal_3));
  }
  const Variable x_1 = norm1.add_dropout_and_norm(tgt, attend_to_targets(tgt)).normal;
  const Variable x_2 = norm2.add_dropout_and_norm(x_1, attend_to_memory(x_1)).normal;
  return norm3.add_dropout_and_norm(x_2, feed(x_2)).normal;
}

TransformerDecoder::TransformerDecoder(Options options) : Layer(std::move(options)) {
  require<ConfigError>(o.num_layers >= 1, "nn::TransformerDecoder: expected num_layers of at least 1, got ",
                       o.num_layers);
  for (int64_t i = 0; i < o.num_layers; ++i) layers.push(o.layer);
}

Variable TransformerDecoder::forward(const Variable& tgt, const Variable& memory,
                                     const TransformerDecoderArguments& a) const {
  Variable x = tgt;
  for (const TransformerDecoderLayer& layer : layers) x = layer(x, memory, a);
  return norm ? (*norm)(x) : x;
}

}  // namespace tessera::nn
