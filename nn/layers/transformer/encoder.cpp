#include "nn/layers/transformer/encoder.h"

namespace tessera::nn {

Variable TransformerEncoderLayer::forward(const Variable& src, const TransformerEncoderArguments& a) const {
  const MultiheadAttentionArguments masks{
      .key_padding_mask = a.src_key_padding_mask, .attn_mask = a.src_mask, .is_causal = a.is_causal};
  const auto attend = [&](const Variable& x) {
    const Variable result = self_attn(x, masks).output;
    return BeforeDropout{result, detail::branch_mask(dropout1, x, o.batch_first)};
  };
  const auto feed = [&](const Variable& x) {
    const Variable result = detail::feed_forward(x, linear1, dropout, linear2, o);
    return BeforeDropout{result, detail::branch_mask(dropout2, x, o.batch_first)};
  };
  if (o.norm_first) {
    const auto [x, normal] = norm1.fork_and_norm(src);
    const auto [sum, normal_2] = norm2.add_dropout_and_norm(x, attend(normal));
    return add_dropout(sum, feed(normal_2));
  }
  const Variable x = norm1.add_dropout_and_norm(src, attend(src)).normal;
  return norm2.add_dropout_and_norm(x, feed(x)).normal;
}

TransformerEncoder::TransformerEncoder(Options options) : Layer(std::move(options)) {
  require<ConfigError>(o.num_layers >= 1, "nn::TransformerEncoder: expected num_layers of at least 1, got ",
                       o.num_layers);
  for (int64_t i = 0; i < o.num_layers; ++i) layers.push(o.layer);
}

Variable TransformerEncoder::forward(const Variable& src, const TransformerEncoderArguments& a) const {
  Variable x = src;
  for (const TransformerEncoderLayer& layer : layers) x = layer(x, a);
  return norm ? (*norm)(x) : x;
}

}  // namespace tessera::nn
