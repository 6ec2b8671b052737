#pragma once

#include "autograd/functions/images/rearranging.h"
#include "autograd/functions/layers/convolution.h"
#include "nn/layer.h"

/// Convolutions as modules, with PyTorch's options and initial values. Where an option takes a Shape, one
/// entry stands for all spatial dimensions.
namespace tessera::nn {

/// Options of Conv1d, Conv2d and Conv3d.
struct ConvOptions {
  int64_t in_channels = 0;                        ///< channels of the input, at least 1
  int64_t out_channels = 0;                       ///< of the result
  Shape kernel_size = 1;                          ///< extents of a window
  Shape stride = 1;                               ///< between windows
  ConvPadding padding = {};                       ///< amounts, "same" or "valid"
  Shape dilation = 1;                             ///< between the elements of a window
  int64_t groups = 1;                             ///< divides both numbers of channels
  bool bias = true;                               ///< whether a value is added for each channel
  PaddingMode padding_mode = PaddingMode::zeros;  ///< what is taken as padding
  /// PyTorch's default (a = sqrt 5): uniform within 1/sqrt(elements of a window over a group's channels).
  init::Initializer weight_init = init::kaiming_uniform(2.23606797749979);
  init::Initializer bias_init = {};  ///< undefined: uniform within the same bound
};

/// Options of ConvTranspose1d, ConvTranspose2d and ConvTranspose3d.
struct ConvTransposeOptions {
  int64_t in_channels = 0;   ///< channels of the input, at least 1
  int64_t out_channels = 0;  ///< of the result
  Shape kernel_size = 1;     ///< extents of a window of the result
  Shape stride = 1;          ///< between windows
  Shape padding = 0;         ///< rows of the result that are left out on each side
  Shape output_padding = 0;  ///< further rows at the end, fewer than the stride or the dilation
  int64_t groups = 1;        ///< divides both numbers of channels
  bool bias = true;          ///< whether a value is added for each channel
  Shape dilation = 1;        ///< between the elements of a window
  /// PyTorch's default (a = sqrt 5): uniform within 1/sqrt(elements of a window over a group's results).
  init::Initializer weight_init = init::kaiming_uniform(2.23606797749979);
  init::Initializer bias_init = {};  ///< undefined: uniform within the same bound
};

namespace detail {

/// Throw ConfigError, naming the layer, for options that no input fits.
/// @{
ConvOptions checked(const char* kind, int ndim, ConvOptions options);
ConvTransposeOptions checked(const char* kind, int ndim, ConvTransposeOptions options);
/// @}
/// The shape of the weight, and the initialiser of the bias.
/// @{
Shape weight_shape(const ConvOptions& options, int ndim);
Shape weight_shape(const ConvTransposeOptions& options, int ndim);
init::Initializer bias_initializer(const init::Initializer& given, const Shape& weight);
/// @}
std::string describe(const ConvOptions& options);
std::string describe(const ConvTransposeOptions& options);
/// The layer's result; a ShapeError names the layer.
/// @{
Variable run(const Module& layer, const ConvOptions& options, int ndim, const Variable& x,
             const Variable& weight, const Variable& bias);
/// With relu in the same pass, after the sum with `added` where it is defined.
Variable run_relu(const Module& layer, const ConvOptions& options, int ndim, const Variable& x,
                  const Variable& added, const Variable& weight, const Variable& bias);
Variable run(const Module& layer, const ConvTransposeOptions& options, int ndim, const Variable& x,
             const Variable& weight, const Variable& bias);
/// @}

/// What the six layers have in common.
template <class Derived, class Options, int n>
struct ConvolutionLayer : Layer<Derived, Options> {
  /// (out_channels, in_channels / groups, kernel...), transposed (in_channels, out_channels / groups, ...).
  Variable& weight = this->parameter("weight", weight_shape(this->o, n), this->o.weight_init);
  /// (out_channels); null for a layer without one.
  Variable* bias = this->o.bias ? &this->parameter("bias", {this->o.out_channels},
                                                   bias_initializer(this->o.bias_init, weight.shape()))
                                : nullptr;

  /// Declares the parameters on meta. Throws ConfigError.
  explicit ConvolutionLayer(Options options)
      : Layer<Derived, Options>(checked(Derived::name, n, std::move(options))) {}
  std::string describe_options() const override { return describe(this->o); }
  /// The convolution of x (N, C, spatial...) or (C, spatial...). Throws ShapeError naming the layer.
  Variable forward(const Variable& x) const {
    return run(*this, this->o, n, x, weight, bias ? *bias : Variable());
  }
  /// max(conv(x), 0) in the same pass: a convolution and the ReLU that follows. Not for transposes.
  Variable conv_relu(const Variable& x) const requires std::same_as<Options, ConvOptions> {
    return run_relu(*this, this->o, n, x, {}, weight, bias ? *bias : Variable());
  }
  /// max(conv(x) + added, 0), the end of a residual block, `added` being of the result's shape; in the same
  /// pass as `conv_relu`. Throws ValueError for an undefined `added`.
  Variable conv_add_relu(const Variable& x,
                         const Variable& added) const requires std::same_as<Options, ConvOptions> {
    require<ValueError>(added.defined(), this->kind(), " '", this->full_name(),
                        "': the added tensor is an undefined Variable");
    return run_relu(*this, this->o, n, x, added, weight, bias ? *bias : Variable());
  }
};

}  // namespace detail

/// `conv1d` to `conv3d` and their transposes, with a weight and a bias: `nn::Conv2d(3, 64, 3)`, or
/// `nn::Conv2d({.in_channels = 3, .out_channels = 64, .kernel_size = {3, 3}, .padding = "same"})`. Throw
/// ConfigError for groups that do not divide the channels, and for numbers and extents below 1.
/// @{
#define TESSERA_CONVOLUTION(n)                                                                               \
  struct Conv##n##d : detail::ConvolutionLayer<Conv##n##d, ConvOptions, n> {                                 \
    static constexpr const char* name = "nn::Conv" #n "d";                                                   \
    using ConvolutionLayer::ConvolutionLayer;                                                                \
    Conv##n##d(int64_t in_channels, int64_t out_channels, const Shape& kernel_size, const Shape& stride = 1, \
               const ConvPadding& padding = {}, const Shape& dilation = 1, int64_t groups = 1,               \
               bool with_bias = true, PaddingMode padding_mode = PaddingMode::zeros)                         \
        : ConvolutionLayer(ConvOptions{in_channels, out_channels, kernel_size, stride, padding, dilation,    \
                                       groups, with_bias, padding_mode}) {}                                  \
  };                                                                                                         \
  struct ConvTranspose##n##d : detail::ConvolutionLayer<ConvTranspose##n##d, ConvTransposeOptions, n> {      \
    static constexpr const char* name = "nn::ConvTranspose" #n "d";                                          \
    using ConvolutionLayer::ConvolutionLayer;                                                                \
    ConvTranspose##n##d(int64_t in_channels, int64_t out_channels, const Shape& kernel_size,                 \
                        const Shape& stride = 1, const Shape& padding = 0, const Shape& output_padding = 0,  \
                        int64_t groups = 1, bool with_bias = true, const Shape& dilation = 1)                \
        : ConvolutionLayer(ConvTransposeOptions{in_channels, out_channels, kernel_size, stride, padding,     \
                                                output_padding, groups, with_bias, dilation}) {}             \
  };
TESSERA_CONVOLUTION(1)
TESSERA_CONVOLUTION(2)
TESSERA_CONVOLUTION(3)
#undef TESSERA_CONVOLUTION
/// @}

/// Options of Unfold.
struct UnfoldOptions {
  Shape kernel_size = 1;  ///< extents of a window
  Shape dilation = 1;     ///< between the elements of a window
  Shape padding = 0;      ///< zeros on both sides
  Shape stride = 1;       ///< between windows
};

/// `unfold`: the windows of images as columns.
struct Unfold : Layer<Unfold, UnfoldOptions> {
  using Layer::Layer;
  /// x (N, C, H, W) to (N, C taps, L).
  Variable forward(const Variable& x) const {
    return unfold(x, o.kernel_size, o.dilation, o.padding, o.stride);
  }
};

/// Options of Fold.
struct FoldOptions {
  Shape output_size = 1;  ///< (H, W) of the result
  Shape kernel_size = 1;  ///< extents of a window
  Shape dilation = 1;     ///< between the elements of a window
  Shape padding = 0;      ///< of the convolution with these windows
  Shape stride = 1;       ///< between windows
};

/// `fold`: the sum of windows where they came from.
struct Fold : Layer<Fold, FoldOptions> {
  using Layer::Layer;
  /// x (N, C taps, L) to (N, C, H, W).
  Variable forward(const Variable& x) const {
    return fold(x, o.output_size, o.kernel_size, o.dilation, o.padding, o.stride);
  }
};

}  // namespace tessera::nn
