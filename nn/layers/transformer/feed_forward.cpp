#include "nn/layers/transformer/feed_forward.h"

#include "autograd/functions/elementwise/activation.h"

namespace tessera::nn {

MultiheadAttentionOptions TransformerLayerOptions::attention() const {
  return {.embed_dim = d_model,
          .num_heads = nhead,
          .dropout = dropout,
          .bias = bias,
          .batch_first = batch_first,
          .out_proj_init = weight_init};
}

LinearOptions TransformerLayerOptions::widening() const {
  return {.in = d_model, .out = dim_feedforward, .bias = bias, .weight_init = weight_init};
}

LinearOptions TransformerLayerOptions::narrowing() const {
  return {.in = dim_feedforward, .out = d_model, .bias = bias, .weight_init = weight_init};
}

LayerNormOptions TransformerLayerOptions::norm() const {
  return {.normalized_shape = {d_model}, .bias = bias, .epsilon = layer_norm_eps};
}

std::string TransformerLayerOptions::description() const {
  return text("width ", d_model, ", ", nhead, " heads, feed-forward ", dim_feedforward, ", dropout ", dropout,
              norm_first ? ", norm first" : "");
}

TransformerLayerOptions checked(TransformerLayerOptions o) {
  const auto at_least_one = [](int64_t value, const char* name) {
    require<ConfigError>(value >= 1, "transformer layer: expected ", name, " to be at least 1, got ", value);
  };
  at_least_one(o.d_model, "d_model");
  at_least_one(o.nhead, "nhead");
  at_least_one(o.dim_feedforward, "dim_feedforward");
  require<ConfigError>(o.d_model % o.nhead == 0, "transformer layer: ", o.nhead,
                       " heads do not divide the width ", o.d_model);
  require<ConfigError>(o.dropout >= 0 && o.dropout < 1, "transformer layer: expected dropout in [0, 1), got ",
                       o.dropout);
  return o;
}

namespace detail {
namespace {

Variable activated(Activation f, const Variable& x) {
  switch (f) {
    case Activation::gelu:
      return gelu(x);
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    case Activation::silu:
      return silu(x);
    default:
      return relu(x);
  }
}

}  // namespace

DropoutMask branch_mask(const Dropout& dropout, const Variable& x, bool batch_first) {
  DropoutMask mask = dropout.mask();
  if (mask.probability > 0 && x.ndim() == 3 && !batch_first) mask.samples = samples_along(1);
  return mask;
}

Variable feed_forward(const Variable& x, const Linear& linear1, const Dropout& dropout, const Linear& linear2,
                      const TransformerLayerOptions& o) {
  const Variable wide = linear1(x);
  const DropoutMask mask = branch_mask(dropout, x, o.batch_first);
  if (mask.probability == 0) return linear2.forward_activated(wide, o.activation);
  return linear2(apply_dropout({activated(o.activation, wide), mask}));
}

}  // namespace detail
}  // namespace tessera::nn
