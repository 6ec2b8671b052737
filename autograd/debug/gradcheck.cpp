#include "autograd/debug/gradcheck.h"

#include <algorithm>
#include <cmath>

#include "autograd/grad_mode.h"
#include "tensor/ops/creation/creation.h"

namespace tessera {
namespace {

/// Fixed weights in [0.5, 1.5), different for neighbouring elements, for a weighted sum of the outputs.
Tensor weights_like(const Tensor& output, int salt) {
  Tensor weights = Tensor::empty(output.shape(), f64);
  for (int64_t i = 0; i < weights.numel(); ++i)
    weights.data<double>()[i] =
        0.5 + std::fmod(0.6180339887498949 * static_cast<double>(i + 1 + 7 * salt), 1.0);
  return weights.to(output.device());
}

double weighted_sum(std::span<const Variable> outputs) {
  double sum = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].dtype() != f64) continue;
    const Tensor values = outputs[k].value().to(cpu()).contiguous(),
                 weights = weights_like(values, static_cast<int>(k));
    for (int64_t i = 0; i < values.numel(); ++i) sum += values.data<double>()[i] * weights.data<double>()[i];
  }
  return sum;
}

/// Contiguous copies of the inputs as leaves, which are perturbed instead of the caller's.
std::vector<Variable> own_leaves(std::span<const Variable> inputs) {
  std::vector<Variable> leaves;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) {
      leaves.push_back(inputs[i]);
      continue;
    }
    require<DTypeError>(inputs[i].dtype() == f64, "gradcheck: input ", i, " requires a gradient and is ",
                        inputs[i], "; numeric differences need f64");
    leaves.push_back(Variable::leaf(inputs[i].value().clone()));
  }
  return leaves;
}

/// The gradients of the weighted sum of the outputs; zeros for an input on which no output depends.
std::vector<Variable> analytic_gradients(const CheckedFunction& function, std::span<const Variable> inputs,
                                         std::span<const Variable> wanted, bool create_graph) {
  std::vector<Variable> roots, weights;
  int salt = 0;
  for (const Variable& output : function(inputs)) {
    if (output.requires_grad()) {
      roots.push_back(output);
      weights.push_back(weights_like(output.value(), salt));
    }
    ++salt;
  }
  std::vector<Variable> gradients(wanted.size());
  if (!roots.empty() && !wanted.empty())
    gradients = grad(roots, wanted, weights, {.create_graph = create_graph, .allow_unused = true});
  for (size_t i = 0; i < wanted.size(); ++i)
    if (!gradients[i].defined()) gradients[i] = Tensor::zeros(wanted[i].shape(), f64, wanted[i].device());
  return gradients;
}

/// `element`, of one input, is moved in place.
double numeric_derivative(const CheckedFunction& function, std::span<const Variable> inputs,
                          const Tensor& element, double step) {
  NoGrad no_grad;
  const double at = element.item();
  ops::fill_(element, at + step);
  const double above = weighted_sum(function(inputs));
  ops::fill_(element, at - step);
  const double below = weighted_sum(function(inputs));
  ops::fill_(element, at);
  return (above - below) / (2 * step);
}

}  // namespace

GradcheckResult gradcheck(const CheckedFunction& function, std::span<const Variable> inputs,
                          GradcheckOptions options) {
  const std::vector<Variable> leaves = own_leaves(inputs);
  std::vector<Variable> wanted;
  for (const Variable& leaf : leaves)
    if (leaf.requires_grad()) wanted.push_back(leaf);
  const std::vector<Variable> gradients = analytic_gradients(function, leaves, wanted, false);

  GradcheckResult result;
  for (size_t k = 0; k < wanted.size(); ++k) {
    const Tensor analytic = gradients[k].value().to(cpu()).contiguous();
    const Tensor elements = wanted[k].value().view({wanted[k].numel()});
    for (int64_t i = 0; i < wanted[k].numel(); ++i) {
      const double expected = numeric_derivative(function, leaves, elements.narrow(0, i, 1), options.step);
      const double got = analytic.data<double>()[i], error = std::abs(got - expected);
      if (!(error <= options.absolute + options.relative * std::abs(expected)) && result.passed) {
        result.passed = false;
        result.message = text("gradient of input ", k, " ", wanted[k].shape(), " at element ", i,
                              ": backward gives ", got, ", central differences ", expected);
      }
      result.largest_error = std::max(result.largest_error, error);
    }
  }
  return result;
}

GradcheckResult gradgradcheck(const CheckedFunction& function, std::span<const Variable> inputs,
                              GradcheckOptions options) {
  // The checked function is the recorded backward.
  const CheckedFunction backward = [&function](std::span<const Variable> list) {
    std::vector<Variable> wanted;
    for (const Variable& input : list)
      if (input.requires_grad()) wanted.push_back(input);
    GradMode record(true);
    return analytic_gradients(function, list, wanted, true);
  };
  return gradcheck(backward, inputs, options);
}

}  // namespace tessera
