#include "optim/clip.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "optim/first_nonfinite.h"
#include "optim/parameter_list_checks.h"
#include "tensor/elementwise/power.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/reduction.h"
#include "tensor/ops/training/multi_tensor.h"
#include "tensor/profile/span.h"

namespace tessera::optim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// One per parameter; undefined where there is none.
std::vector<Tensor> gradients_of(const ParameterList& parameters) {
  std::vector<Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const NamedParameter& parameter : parameters) {
    const Variable gradient = parameter.variable.grad();
    gradients.push_back(gradient.defined() ? gradient.value() : Tensor());
  }
  return gradients;
}

/// Each gradient's sum of |g|^p.
std::vector<double> power_sums_of(const ParameterList& parameters, double p) {
  const Tensor sums = ops::power_sums(gradients_of(parameters), p).to(cpu());
  return {sums.data<double>(), sums.data<double>() + sums.numel()};
}

double combine(std::span<const double> power_sums, double p) {
  double sum = 0.0, largest = 0.0;
  for (const double term : power_sums) {
    sum += term;
    if (!(largest >= term) && largest == largest) largest = term;
  }
  return p == infinity ? largest : sum;
}

double power_sum(const ParameterList& parameters, const NormOptions& options) {
  if (parameters.reducer()) return parameters.reducer()->power_sum(parameters, options.p);
  return combine(power_sums_of(parameters, options.p), options.p);
}

bool on_meta(const ParameterList& parameters) {
  for (const NamedParameter& parameter : parameters) {
    const Variable gradient = parameter.variable.grad();
    if (gradient.defined() && gradient.device().is_meta()) return true;
  }
  return false;
}

/// Whether every gradient is on a CUDA device and the norm is of this process alone: then norm and
/// coefficient are computed there, and the host does not wait.
bool stays_on_device(const ParameterList& parameters) {
  if (parameters.reducer()) return false;
  bool any = false;
  for (const NamedParameter& parameter : parameters) {
    const Variable gradient = parameter.variable.grad();
    if (!gradient.defined()) continue;
    if (!gradient.device().is_cuda()) return false;
    any = true;
  }
  return any;
}

/// The norm on the device, 0-dim f64. Sums are in an order of the device's own, the same in every run.
Tensor norm_on_device(const ParameterList& parameters, double p) {
  const Tensor sums = ops::power_sums(gradients_of(parameters), p);
  if (p == infinity) return ops::max(sums);
  const Tensor sum = ops::sum(sums);
  return p == 1.0 ? sum : p == 2.0 ? ops::sqrt(sum) : ops::pow(sum, 1.0 / p);
}

double root(double sum, double p) {
  if (p == 2.0) return std::sqrt(sum);
  return p == 1.0 || p == infinity ? sum : elementwise::pow(sum, 1.0 / p);
}

[[noreturn]] void throw_nonfinite(const ParameterList& parameters, double norm) {
  const std::vector<double> largest = power_sums_of(parameters, infinity);
  int64_t local = -1;
  for (size_t i = largest.size(); i-- > 0;)
    if (!std::isfinite(largest[i])) local = static_cast<int64_t>(i);
  const std::optional<NonFiniteGradient> fault = first_nonfinite_gradient(parameters, local);
  require<NonFiniteError>(fault.has_value(), "grad_norm: the norm is ", norm,
                          ", though every gradient is finite");
  throw NonFiniteError(
      text("grad_norm: the norm is ", norm, "; the first gradient that is not finite is that of ", *fault));
}

}  // namespace

Tensor grad_norm(const ParameterList& parameters, const NormOptions& options) {
  const SpanScope span(SpanKind::phase, "clip");
  require<ValueError>(options.p > 0.0, "grad_norm: expected p > 0, got ", options.p);
  require_summable(parameters, "grad_norm");
  if (on_meta(parameters)) return Tensor::empty({}, f64, meta());
  if (stays_on_device(parameters)) {
    const Tensor norm = norm_on_device(parameters, options.p);
    if (options.error_if_nonfinite && !std::isfinite(norm.item())) throw_nonfinite(parameters, norm.item());
    return norm;
  }
  const double norm = root(power_sum(parameters, options), options.p);
  if (options.error_if_nonfinite && !std::isfinite(norm)) throw_nonfinite(parameters, norm);
  return Tensor::scalar(norm);
}

ClipCoefficient clip_coefficient(const ParameterList& parameters, double max_norm,
                                 const NormOptions& options) {
  require<ValueError>(max_norm >= 0.0, "clip_grad_norm: expected a norm of at least 0, got ", max_norm);
  const Tensor norm = grad_norm(parameters, options);
  if (norm.is_meta()) return {norm, norm};
  if (norm.device().is_cuda())  // minimum: NaN stays NaN
    return {norm, ops::minimum(ops::div(max_norm, ops::add(norm, 1e-6)), 1.0)};
  const double coefficient = max_norm / (norm.item() + 1e-6);
  return {norm, Tensor::scalar(coefficient > 1.0 ? 1.0 : coefficient)};  // NaN stays NaN
}

Tensor clip_grad_norm(const ParameterList& parameters, double max_norm, const NormOptions& options) {
  const ClipCoefficient clip = clip_coefficient(parameters, max_norm, options);
  if (!clip.norm.device().is_cpu() || clip.coefficient.item() != 1.0)
    ops::scale_in_place(gradients_of(parameters), clip.coefficient);
  return clip.norm;
}

void clip_grad_value(const ParameterList& parameters, double limit) {
  require_current(parameters, "clip_grad_value");
  ops::clamp_in_place(gradients_of(parameters), limit);
}

}  // namespace tessera::optim
