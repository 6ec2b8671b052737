#pragma once

#include "autograd/functions/images/interpolation.h"
#include "autograd/functions/images/rearranging.h"
#include "nn/layer.h"

/// Layers that change the size of planes, without parameters; each is the function of its name.
namespace tessera::nn {

/// `interpolate(x, options)` of x (N, C, ...): `Upsample({.scale_factor = {2}, .mode = ...})`.
struct Upsample : Layer<Upsample, InterpolateOptions> {
  /// Stores the options.
  explicit Upsample(InterpolateOptions options) : Layer(std::move(options)) {}
  std::string describe_options() const override {
    return o.size.empty() ? text(name_of(o.mode)) : text(o.size, ", ", name_of(o.mode));
  }
  /// x of the other size. Throws as `interpolate`.
  Variable forward(const Variable& x) const { return interpolate(x, o); }
};

/// Options of PixelShuffle and PixelUnshuffle.
struct PixelShuffleOptions {
  int64_t factor = 1;  ///< by which height and width grow or shrink
};
/// `pixel_shuffle(x, factor)`: (..., C r^2, H, W) to (..., C, r H, r W).
struct PixelShuffle : Layer<PixelShuffle, PixelShuffleOptions> {
  /// Takes the factor, or the options by name.
  /// @{
  explicit PixelShuffle(PixelShuffleOptions options) : Layer(options) {}
  explicit PixelShuffle(int64_t upscale_factor) : PixelShuffle(PixelShuffleOptions{upscale_factor}) {}
  /// @}
  std::string describe_options() const override { return text(o.factor); }
  /// x with r by r channels as squares.
  Variable forward(const Variable& x) const { return pixel_shuffle(x, o.factor); }
};
/// `pixel_unshuffle(x, factor)`, the inverse.
struct PixelUnshuffle : Layer<PixelUnshuffle, PixelShuffleOptions> {
  /// Takes the factor, or the options by name.
  /// @{
  explicit PixelUnshuffle(PixelShuffleOptions options) : Layer(options) {}
  explicit PixelUnshuffle(int64_t downscale_factor) : PixelUnshuffle(PixelShuffleOptions{downscale_factor}) {}
  /// @}
  std::string describe_options() const override { return text(o.factor); }
  /// x with squares as r by r channels.
  Variable forward(const Variable& x) const { return pixel_unshuffle(x, o.factor); }
};

/// Options of ChannelShuffle.
struct ChannelShuffleOptions {
  int64_t groups = 1;  ///< that the channels are divided into
};
/// `channel_shuffle(x, groups)` of x (N, C, ...).
struct ChannelShuffle : Layer<ChannelShuffle, ChannelShuffleOptions> {
  /// Takes the number of groups, or the options by name.
  /// @{
  explicit ChannelShuffle(ChannelShuffleOptions options) : Layer(options) {}
  explicit ChannelShuffle(int64_t groups) : ChannelShuffle(ChannelShuffleOptions{groups}) {}
  /// @}
  std::string describe_options() const override { return text(o.groups); }
  /// x with its channels reordered.
  Variable forward(const Variable& x) const { return channel_shuffle(x, o.groups); }
};

}  // namespace tessera::nn
