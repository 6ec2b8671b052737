#pragma once

#include "autograd/functions/normalization.h"
#include "nn/layer.h"
#include "nn/residual.h"

namespace tessera::nn {

struct LayerNormOptions {
  Shape normalized_shape;  ///< the last dimensions, normalised together
  bool bias = true;
  double epsilon = 1e-5;
};

/// (x - mean) / sqrt(var + epsilon) * weight + bias over the last dimensions (Ba et al. 2016).
struct LayerNorm : Layer<LayerNorm> {
  using Options = LayerNormOptions;
  Options o;
  Variable& weight = parameter("weight", o.normalized_shape, init::ones());
  Variable* bias = o.bias ? &parameter("bias", o.normalized_shape, init::zeros()) : nullptr;

  explicit LayerNorm(Options options) : o(options) {}
  explicit LayerNorm(int64_t width, bool with_bias = true)
      : LayerNorm(Options{.normalized_shape = {width}, .bias = with_bias}) {}
  std::string kind() const override { return "LayerNorm"; }
  std::string describe_options() const override {
    return text(o.normalized_shape, o.bias ? "" : ", no bias");
  }
  Variable forward(const Variable& x);
  /// The sum and its norm, in one pass forward and one backward. The returned `sum` continues the residual
  /// stream, also where nothing was added.
  SumAndNorm forward(const Residual& stream);

 private:
  void check(const Variable& x) const;
};

struct RMSNormOptions {
  int64_t width = 0;
  double epsilon = 1e-6;
};

/// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension (Zhang & Sennrich 2019).
struct RMSNorm : Layer<RMSNorm> {
  using Options = RMSNormOptions;
  Options o;
  Variable& weight = parameter("weight", {o.width}, init::ones());

  explicit RMSNorm(Options options) : o(options) {}
  explicit RMSNorm(int64_t width) : RMSNorm(Options{.width = width}) {}
  std::string kind() const override { return "RMSNorm"; }
  std::string describe_options() const override { return text(o.width); }
  Variable forward(const Variable& x);
  /// As LayerNorm's.
  SumAndNorm forward(const Residual& stream);

 private:
  void check(const Variable& x) const;
};

}  // namespace tessera::nn
