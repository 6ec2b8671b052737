#pragma once

#include "autograd/functions/layers/loss.h"
#include "nn/layer.h"
#include "tensor/arguments/quantized_weight.h"
#include "tensor/ops/layers/activation_linear.h"

namespace tessera::nn {

/// Options of Linear.
struct LinearOptions {
  int64_t in = 0;    ///< features of the input's last dimension
  int64_t out = 0;   ///< features of the result's
  bool bias = true;  ///< whether b is added
  /// PyTorch's default (a = sqrt 5), uniform within 1/sqrt(in).
  init::Initializer weight_init = init::kaiming_uniform(2.23606797749979);
  init::Initializer bias_init = {};  ///< undefined: PyTorch's default, uniform within 1/sqrt(in)

  /// `bias_init`, or the default.
  init::Initializer bias_initializer() const;
};

/// y = x W^T + b: x (..., in), weight (out, in), bias (out), y (..., out). Throws ShapeError naming the
/// layer.
struct Linear : Layer<Linear, LinearOptions> {
  Variable& weight = parameter("weight", {o.out, o.in}, o.weight_init);  ///< (out, in)
  /// (out); null for a layer without one.
  Variable* bias = o.bias ? &parameter("bias", {o.out}, o.bias_initializer()) : nullptr;

  /// Declares the parameters on meta.
  /// @{
  explicit Linear(Options options) : Layer(std::move(options)) {}
  Linear(int64_t in, int64_t out, bool with_bias = true)
      : Layer(Options{.in = in, .out = out, .bias = with_bias}) {}
  /// @}
  std::string describe_options() const override;
  /// x W^T + b: x (..., in) to (..., out).
  Variable forward(const Variable& x) const;
  /// The same for activation(x), which is neither stored nor saved.
  Variable forward_activated(const Variable& x, Activation activation) const;
  /// The cross entropy of its results as logits, which are computed in chunks and never stored all at once.
  Variable cross_entropy(const Variable& x, const Tensor& targets,
                         const CrossEntropyOptions& options = {}) const;

  /// The integers that products read while `weight` is on meta; null for a layer that has none
  /// (nn/quantize_weights.h). Its calls then throw AutogradError where gradients would be recorded.
  const ops::QuantizedWeight* quantized_weight() const {
    return quantized_.defined() && weight.value().is_meta() ? &quantized_ : nullptr;
  }
  /// Puts integers (out, in) in the place of `weight`, which keeps its shape and dtype, on meta. Throws
  /// ShapeError for other shapes.
  void set_quantized_weight(ops::QuantizedWeight quantized);
  /// The weight's device, or that of its integers.
  Device device() const { return quantized_weight() ? quantized_.values.device() : weight.device(); }

 protected:
  /// Copies the integers too, which layers may share: they do not change.
  void copy_options(const Module& original) override;

 private:
  void check(const Variable& x) const;

  ops::QuantizedWeight quantized_;
};

}  // namespace tessera::nn
