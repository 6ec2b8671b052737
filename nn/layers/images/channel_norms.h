#pragma once

#include "autograd/functions/images/channel_norms.h"
#include "nn/layer.h"

namespace tessera::nn {

/// Options of GroupNorm.
struct GroupNormOptions {
  int64_t num_groups = 0;    ///< groups that the channels are divided into
  int64_t num_channels = 0;  ///< channels of the input, a multiple of num_groups
  double epsilon = 1e-5;     ///< added to the variance
  bool affine = true;        ///< whether there are a weight and a bias
};

/// `group_norm(x, num_groups, weight, bias)` of x (N, C, ...).
struct GroupNorm : Layer<GroupNorm, GroupNormOptions> {
  /// (C); null for a layer without one. Initially ones and zeros.
  /// @{
  Variable* weight = o.affine ? &parameter("weight", {o.num_channels}, init::ones()) : nullptr;
  Variable* bias = o.affine ? &parameter("bias", {o.num_channels}, init::zeros()) : nullptr;
  /// @}

  /// Declares the parameters on meta. Throws ConfigError for groups that do not divide the channels.
  /// @{
  explicit GroupNorm(GroupNormOptions options);
  GroupNorm(int64_t num_groups, int64_t num_channels)
      : GroupNorm(GroupNormOptions{.num_groups = num_groups, .num_channels = num_channels}) {}
  /// @}
  std::string describe_options() const override { return text(o.num_groups, ", ", o.num_channels); }
  /// The norm of x, of x's shape. Throws ShapeError naming the layer for another number of channels.
  Variable forward(const Variable& x) const;
};

/// Options of InstanceNorm.
struct InstanceNormOptions {
  int64_t num_features = 0;          ///< channels of the input
  double epsilon = 1e-5;             ///< added to the variance
  double momentum = 0.1;             ///< the share of a call's statistics in the running ones
  bool affine = false;               ///< whether there are a weight and a bias
  bool track_running_stats = false;  ///< whether evaluation reads running statistics
};

/// `instance_norm` of x (N, C, L) for dims = 1, (N, C, H, W) for 2, (N, C, D, H, W) for 3, or without N.
template <int dims>
struct InstanceNorm : Layer<InstanceNorm<dims>, InstanceNormOptions> {
  /// (C); null for a layer without one. Initially ones and zeros.
  /// @{
  Variable* weight =
      this->o.affine ? &this->parameter("weight", {this->o.num_features}, init::ones()) : nullptr;
  Variable* bias = this->o.affine ? &this->parameter("bias", {this->o.num_features}, init::zeros()) : nullptr;
  /// @}
  /// (C), buffers, initially zeros and ones; null without `track_running_stats`.
  /// @{
  Variable* running_mean = this->o.track_running_stats
                               ? &this->buffer("running_mean", {this->o.num_features}, init::zeros())
                               : nullptr;
  Variable* running_var = this->o.track_running_stats
                              ? &this->buffer("running_var", {this->o.num_features}, init::ones())
                              : nullptr;
  /// @}
  /// The number of calls in training, 0-dim i64; null without `track_running_stats`.
  Variable* num_batches_tracked =
      this->o.track_running_stats ? &this->buffer("num_batches_tracked", Tensor::zeros({}, i64)) : nullptr;

  /// Declares parameters and buffers on meta.
  /// @{
  explicit InstanceNorm(InstanceNormOptions options)
      : Layer<InstanceNorm<dims>, InstanceNormOptions>(options) {}
  explicit InstanceNorm(int64_t num_features)
      : InstanceNorm(InstanceNormOptions{.num_features = num_features}) {}
  /// @}
  std::string kind() const override { return text("InstanceNorm", dims, "d"); }
  std::string describe_options() const override { return text(this->o.num_features); }
  /// The norm of x, of x's shape. Throws ShapeError naming the layer for another rank or number of channels.
  Variable forward(const Variable& x) const;
};
/// By PyTorch's names.
/// @{
using InstanceNorm1d = InstanceNorm<1>;
using InstanceNorm2d = InstanceNorm<2>;
using InstanceNorm3d = InstanceNorm<3>;
/// @}

/// Options of LocalResponseNorm.
struct LocalResponseNormOptions {
  int64_t size = 0;     ///< neighbouring channels
  double alpha = 1e-4;  ///< times the average of their squares
  double beta = 0.75;   ///< the exponent
  double k = 1;         ///< added before the power
};

/// `local_response_norm(x, size, alpha, beta, k)` of x (N, C, ...).
struct LocalResponseNorm : Layer<LocalResponseNorm, LocalResponseNormOptions> {
  /// Takes PyTorch's arguments, or the options by name.
  /// @{
  explicit LocalResponseNorm(LocalResponseNormOptions options) : Layer(options) {}
  explicit LocalResponseNorm(int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1)
      : LocalResponseNorm(LocalResponseNormOptions{size, alpha, beta, k}) {}
  /// @}
  std::string describe_options() const override { return text(o.size); }
  /// The norm of x, of x's shape.
  Variable forward(const Variable& x) const { return local_response_norm(x, o.size, o.alpha, o.beta, o.k); }
};

}  // namespace tessera::nn
