#pragma once

#include "autograd/functions/images/channel_dropout.h"
#include "nn/layers/dropout.h"

/// Dropout of whole channels, and dropout beside SELU, as modules. Each draws its mask as nn::Dropout does.
namespace tessera::nn {

/// Zeroes whole channels of x (N, C, L) for dims = 1, (N, C, H, W) for 2, (N, C, D, H, W) for 3.
template <int dims>
struct ChannelDropout : Layer<ChannelDropout<dims>, DropoutOptions> {
  /// Throws ConfigError for a probability outside [0, 1).
  /// @{
  explicit ChannelDropout(DropoutOptions options);
  explicit ChannelDropout(double probability = 0.5) : ChannelDropout(DropoutOptions{probability}) {}
  /// @}
  std::string kind() const override { return text("Dropout", dims, "d"); }
  std::string describe_options() const override { return text(this->o.probability); }
  /// x with channels dropped; in evaluation x itself.
  Variable forward(const Variable& x) const;
};
/// By PyTorch's names.
/// @{
using Dropout1d = ChannelDropout<1>;
using Dropout2d = ChannelDropout<2>;
using Dropout3d = ChannelDropout<3>;
/// @}

/// `alpha_dropout`, which keeps the mean and variance of a SELU network.
struct AlphaDropout : Layer<AlphaDropout, DropoutOptions> {
  /// Throws ConfigError for a probability outside [0, 1).
  /// @{
  explicit AlphaDropout(DropoutOptions options);
  explicit AlphaDropout(double probability = 0.5) : AlphaDropout(DropoutOptions{probability}) {}
  /// @}
  std::string describe_options() const override { return text(o.probability); }
  /// x with elements dropped; in evaluation x itself.
  Variable forward(const Variable& x) const;
};

/// `feature_alpha_dropout`: the same of whole channels of x (N, C, ...).
struct FeatureAlphaDropout : Layer<FeatureAlphaDropout, DropoutOptions> {
  /// Throws ConfigError for a probability outside [0, 1).
  /// @{
  explicit FeatureAlphaDropout(DropoutOptions options);
  explicit FeatureAlphaDropout(double probability = 0.5) : FeatureAlphaDropout(DropoutOptions{probability}) {}
  /// @}
  std::string describe_options() const override { return text(o.probability); }
  /// x with channels dropped; in evaluation x itself.
  Variable forward(const Variable& x) const;
};

}  // namespace tessera::nn
