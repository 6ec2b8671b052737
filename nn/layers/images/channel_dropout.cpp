#include "nn/layers/images/channel_dropout.h"

#include "tensor/random/random_context.h"

namespace tessera::nn {
namespace {

void check(const Module& layer, const DropoutOptions& o) {
  require<ConfigError>(o.probability >= 0 && o.probability < 1, "nn::", layer.kind(),
                       ": expected a probability in [0, 1), got ", o.probability);
}

/// The mask of this call; none in evaluation.
DropoutMask mask_of(const Module& layer, const DropoutOptions& o) {
  if (!layer.is_training() || o.probability == 0) return {};
  return {.probability = o.probability, .key = next_random_key(layer.full_name()), .samples = o.samples};
}

}  // namespace

template <int dims>
ChannelDropout<dims>::ChannelDropout(DropoutOptions options)
    : Layer<ChannelDropout<dims>, DropoutOptions>(options) {
  check(*this, options);
}

template <int dims>
Variable ChannelDropout<dims>::forward(const Variable& x) const {
  const DropoutMask mask = mask_of(*this, this->o);
  return dims == 1 ? dropout1d(x, mask) : dims == 2 ? dropout2d(x, mask) : dropout3d(x, mask);
}

template struct ChannelDropout<1>;
template struct ChannelDropout<2>;
template struct ChannelDropout<3>;

AlphaDropout::AlphaDropout(DropoutOptions options) : Layer(options) {
  check(*this, options);
}
Variable AlphaDropout::forward(const Variable& x) const {
  return alpha_dropout(x, mask_of(*this, o));
}

FeatureAlphaDropout::FeatureAlphaDropout(DropoutOptions options) : Layer(options) {
  check(*this, options);
}
Variable FeatureAlphaDropout::forward(const Variable& x) const {
  return feature_alpha_dropout(x, mask_of(*this, o));
}

}  // namespace tessera::nn
