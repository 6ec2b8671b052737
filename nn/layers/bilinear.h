#pragma once

#include "nn/layer.h"

namespace tessera::nn {

/// Options of Bilinear.
struct BilinearOptions {
  int64_t in1 = 0;                     ///< I, features of the first input's last dimension
  int64_t in2 = 0;                     ///< J, of the second's
  int64_t out = 0;                     ///< O, of the result's
  bool bias = true;                    ///< whether b is added
  init::Initializer weight_init = {};  ///< undefined: PyTorch's default, uniform within 1/sqrt(in1)
  init::Initializer bias_init = {};    ///< undefined: the same

  /// `given`, or the default.
  init::Initializer initializer(const init::Initializer& given) const;
};

/// y_o = x1^T W_o x2 + b_o, as `bilinear`: x1 (..., I) and x2 (..., J) with the same leading extents, weight
/// (O, I, J), bias (O), y (..., O). Throws ShapeError naming the layer.
struct Bilinear : Layer<Bilinear, BilinearOptions> {
  Variable& weight = parameter("weight", {o.out, o.in1, o.in2}, o.initializer(o.weight_init));  ///< (O, I, J)
  /// (O); null for a layer without one.
  Variable* bias = o.bias ? &parameter("bias", {o.out}, o.initializer(o.bias_init)) : nullptr;

  /// Declares the parameters on meta. Throws ConfigError for sizes below 1.
  /// @{
  explicit Bilinear(Options options);
  Bilinear(int64_t in1, int64_t in2, int64_t out, bool with_bias = true)
      : Bilinear(Options{.in1 = in1, .in2 = in2, .out = out, .bias = with_bias}) {}
  /// @}
  std::string describe_options() const override;
  /// x1^T W x2 + b: x1 (..., I) and x2 (..., J) to (..., O).
  Variable forward(const Variable& x1, const Variable& x2) const;
};

}  // namespace tessera::nn
