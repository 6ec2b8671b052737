#pragma once

#include "autograd/functions/layers/normalization.h"
#include "nn/layer.h"
#include "nn/layers/dropout.h"

namespace tessera::nn {

/// Options of LayerNorm.
struct LayerNormOptions {
  Shape normalized_shape;  ///< the last dimensions, normalised together
  bool bias = true;        ///< whether a bias is added
  double epsilon = 1e-5;   ///< added to the variance
};

/// (x - mean) / sqrt(var + epsilon) * weight + bias over the last dimensions (Ba et al. 2016).
struct LayerNorm : Layer<LayerNorm, LayerNormOptions> {
  /// Of the shape `normalized_shape`.
  Variable& weight = parameter("weight", o.normalized_shape, init::ones());
  /// Of the same shape; null for a layer without one.
  Variable* bias = o.bias ? &parameter("bias", o.normalized_shape, init::zeros()) : nullptr;

  /// Declares the parameters on meta.
  explicit LayerNorm(Options options) : Layer(options) {}
  /// Over the last dimension, of `width` features.
  explicit LayerNorm(int64_t width, bool with_bias = true)
      : LayerNorm(Options{.normalized_shape = {width}, .bias = with_bias}) {}
  std::string describe_options() const override {
    return text(o.normalized_shape, o.bias ? "" : ", no bias");
  }
  /// The norm of x, of x's shape. Throws ShapeError naming the layer for other last dimensions.
  Variable forward(const Variable& x) const;
  /// x, not copied, and its norm: where a residual branch begins. Backward adds the gradients of both in the
  /// norm's pass, so the residual path continues from the returned `sum`.
  SumAndNorm fork_and_norm(const Variable& x) const;
  /// x + dropout(branch), and the norm of this sum, in one pass forward and one backward: the end of a
  /// residual branch and the beginning of the next.
  SumAndNorm add_dropout_and_norm(const Variable& x, const BeforeDropout& branch) const;

 private:
  void check(const Variable& x) const;
};

/// Options of RMSNorm.
struct RMSNormOptions {
  int64_t width = 0;      ///< features of the last dimension
  double epsilon = 1e-6;  ///< added to the mean of the squares
};

/// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension (Zhang & Sennrich 2019).
struct RMSNorm : Layer<RMSNorm, RMSNormOptions> {
  Variable& weight = parameter("weight", {o.width}, init::ones());  ///< (width)

  /// Declares the weight on meta.
  /// @{
  explicit RMSNorm(Options options) : Layer(options) {}
  explicit RMSNorm(int64_t width) : RMSNorm(Options{.width = width}) {}
  /// @}
  std::string describe_options() const override { return text(o.width); }
  /// The norm of x, of x's shape. Throws ShapeError naming the layer for another last dimension.
  Variable forward(const Variable& x) const;
  /// As LayerNorm's.
  /// @{
  SumAndNorm fork_and_norm(const Variable& x) const;
  SumAndNorm add_dropout_and_norm(const Variable& x, const BeforeDropout& branch) const;
  /// @}

 private:
  void check(const Variable& x) const;
};

}  // namespace tessera::nn
