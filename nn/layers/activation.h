#pragma once

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/layers/softmax.h"
#include "nn/layer.h"

/// Activations as modules, for nn::Sequential; each is the function of the same name. No parameters.
namespace tessera::nn {

/// x Phi(x), by erf (Hendrycks & Gimpel 2016).
struct GELU : Layer<GELU> {
  /// `gelu(x)`, of x's shape.
  Variable forward(const Variable& x) const { return gelu(x); }
};

/// GELU by its tanh approximation, as GPT-2 has it.
struct GELUTanh : Layer<GELUTanh> {
  /// `gelu_tanh(x)`, of x's shape.
  Variable forward(const Variable& x) const { return gelu_tanh(x); }
};

/// max(x, 0).
struct ReLU : Layer<ReLU> {
  /// `relu(x)`, of x's shape.
  Variable forward(const Variable& x) const { return relu(x); }
};

/// x sigmoid(x).
struct SiLU : Layer<SiLU> {
  /// `silu(x)`, of x's shape.
  Variable forward(const Variable& x) const { return silu(x); }
};

/// The hyperbolic tangent of each element.
struct Tanh : Layer<Tanh> {
  /// `tanh(x)`, of x's shape.
  Variable forward(const Variable& x) const { return tanh(x); }
};

/// 1 / (1 + exp(-x)).
struct Sigmoid : Layer<Sigmoid> {
  /// `sigmoid(x)`, of x's shape.
  Variable forward(const Variable& x) const { return sigmoid(x); }
};

/// Options of Softmax.
struct SoftmaxOptions {
  int64_t dim = -1;  ///< along which the results add up to 1; counted from the end when negative
};

/// exp(x) / sum(exp(x)) over one dimension.
struct Softmax : Layer<Softmax, SoftmaxOptions> {
  /// By default over the last dimension.
  explicit Softmax(Options options = {}) : Layer(options) {}
  /// `softmax(x, o.dim)`, of x's shape.
  Variable forward(const Variable& x) const { return softmax(x, o.dim); }
};

}  // namespace tessera::nn
