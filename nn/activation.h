#pragma once

#include "autograd/functions/activation.h"
#include "autograd/functions/softmax.h"
#include "autograd/functions/unary.h"
#include "nn/layer.h"

/// Activations as modules, for nn::Sequential; each is the function of the same name. No parameters.
namespace tessera::nn {

/// x Phi(x), by erf (Hendrycks & Gimpel 2016).
struct GELU : Layer<GELU> {
  std::string kind() const override { return "GELU"; }
  Variable forward(const Variable& x) { return gelu(x); }
};

/// GELU by its tanh approximation, as GPT-2 has it.
struct GELUTanh : Layer<GELUTanh> {
  std::string kind() const override { return "GELUTanh"; }
  Variable forward(const Variable& x) { return gelu_tanh(x); }
};

struct ReLU : Layer<ReLU> {
  std::string kind() const override { return "ReLU"; }
  Variable forward(const Variable& x) { return relu(x); }
};

/// x sigmoid(x).
struct SiLU : Layer<SiLU> {
  std::string kind() const override { return "SiLU"; }
  Variable forward(const Variable& x) { return silu(x); }
};

struct Tanh : Layer<Tanh> {
  std::string kind() const override { return "Tanh"; }
  Variable forward(const Variable& x) { return tanh(x); }
};

struct Sigmoid : Layer<Sigmoid> {
  std::string kind() const override { return "Sigmoid"; }
  Variable forward(const Variable& x) { return sigmoid(x); }
};

struct SoftmaxOptions {
  int64_t dim = -1;
};

struct Softmax : Layer<Softmax> {
  using Options = SoftmaxOptions;
  Options o;
  explicit Softmax(Options options = {}) : o(options) {}
  std::string kind() const override { return "Softmax"; }
  Variable forward(const Variable& x) { return softmax(x, o.dim); }
};

}  // namespace tessera::nn
