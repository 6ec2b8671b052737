#pragma once

#include "nn/layers/containers.h"
#include "nn/layers/linear.h"

/// A plain multilayer perceptron: matrix products and their parameters. Legend: B batch, C width.
namespace tessera::models {

/// The size of a Dnn; by default that of `wide_dnn`.
struct DnnOptions {
  int64_t layers = 3;    ///< linear layers, at least 1
  int64_t width = 2048;  ///< of the input, of every layer and of the result
};

/// `layers` linear layers of (width, width) with a bias and a ReLU between each two, as He et al. 2015
/// initialise them: (B, C) to (B, C). For measuring distributed training: a wide one has few large messages,
/// a deep one many small ones.
struct Dnn : nn::Layer<Dnn, DnnOptions> {
  /// The linear layers, from the input on.
  nn::ModuleList<nn::Linear>& layers = add<nn::ModuleList<nn::Linear>>("layers");

  /// Throws ConfigError for sizes below 1.
  explicit Dnn(Options options);
  std::string describe_options() const override;

  /// Throws ShapeError unless x is (..., C).
  Variable forward(const Variable& x) const;
  /// The mean squared error of the result against `target`, a scalar.
  Variable loss(const Variable& x, const Tensor& target) const;
  /// The linear layers, each of which applies the ReLU before it.
  std::vector<nn::LayerSpec> to_layers() const;
  /// The same with the loss.
  nn::LayeredModel to_layered_model() const;
};

/// 3 layers 2048 wide: 12,589,056 parameters.
DnnOptions wide_dnn();
/// 256 layers 256 wide: 16,842,752 parameters.
DnnOptions deep_dnn();

/// Parameters of the model, by the formula: layers (width^2 + width).
int64_t parameter_count(const DnnOptions& options);
/// Floating-point operations of the matrix products that train on one sample: 6 layers width^2, less the
/// first layer's gradient of its input, which is not computed.
int64_t flops_per_sample(const DnnOptions& options);

}  // namespace tessera::models
