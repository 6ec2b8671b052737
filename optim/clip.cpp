#include "optim/clip.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "optim/gradient_squares.h"
#include "tensor/elementwise/power.h"
#include "tensor/ops/multi_tensor.h"
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

/// Each gradient's sum of |g|^p; none on meta. What a backward has summed already is not looked at again.
std::vector<double> pieces_of(const ParameterList& parameters, double p) {
  std::vector<Tensor> gradients = gradients_of(parameters);
  std::vector<double> pieces(gradients.size());
  bool all_known = true;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::optional<double> known = p == 2.0 ? gradient_squares(parameters[i].variable) : std::nullopt;
    if (known) {
      pieces[i] = *known;
      gradients[i] = Tensor();
    }
    all_known &= !gradients[i].defined();
  }
  if (all_known) return pieces;
  const Tensor sums = ops::power_sums(gradients, p);
  if (sums.is_meta()) return {};
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) pieces[i] = sums.data<double>()[i];
  return pieces;
}

double join(const ParameterList& parameters, std::span<const double> pieces, double p) {
  if (p == infinity) {
    require<ConfigError>(!parameters.norm_reducer(),
                         "grad_norm: the infinity norm is no sum over ranks; take p < inf");
    double largest = 0.0;
    for (const double piece : pieces)
      if (!(largest >= piece) && largest == largest) largest = piece;
    return largest;
  }
  if (parameters.norm_reducer()) return parameters.norm_reducer()(pieces);
  double sum = 0.0;
  for (const double piece : pieces) sum += piece;
  return sum;
}

double root(double sum, double p) {
  if (p == 2.0) return std::sqrt(sum);
  return p == 1.0 || p == infinity ? sum : elementwise::pow(sum, 1.0 / p);
}

[[noreturn]] void throw_nonfinite(const ParameterList& parameters, std::span<const double> pieces,
                                  double norm) {
  for (size_t i = 0; i < pieces.size(); ++i)
    if (!std::isfinite(pieces[i]))
      throw NonFiniteError(text("grad_norm: the norm is ", norm,
                                "; the first gradient that is not finite is that of '", parameters[i].name,
                                "'"));
  throw NonFiniteError(text("grad_norm: the norm is ", norm, ", though every gradient here is finite"));
}

}  // namespace

Tensor grad_norm(const ParameterList& parameters, const NormOptions& options) {
  const SpanScope span(SpanKind::phase, "clip");
  const std::vector<double> pieces = pieces_of(parameters, options.p);
  if (pieces.empty() && !parameters.empty()) return Tensor::empty({}, f64, meta());
  const double norm = root(join(parameters, pieces, options.p), options.p);
  if (options.error_if_nonfinite && !std::isfinite(norm)) throw_nonfinite(parameters, pieces, norm);
  return Tensor::scalar(norm);
}

ClipCoefficient clip_coefficient(const ParameterList& parameters, double max_norm,
                                 const NormOptions& options) {
  require<ValueError>(max_norm >= 0.0, "clip_grad_norm: expected a norm of at least 0, got ", max_norm);
  const Tensor norm = grad_norm(parameters, options);
  if (norm.is_meta()) return {norm, norm};
  const double coefficient = max_norm / (norm.item() + 1e-6);
  return {norm, Tensor::scalar(coefficient > 1.0 ? 1.0 : coefficient)};  // NaN stays NaN
}

Tensor clip_grad_norm(const ParameterList& parameters, double max_norm, const NormOptions& options) {
  const ClipCoefficient clip = clip_coefficient(parameters, max_norm, options);
  if (clip.norm.is_meta() || clip.coefficient.item() != 1.0)
    ops::scale_in_place(gradients_of(parameters), clip.coefficient);
  return clip.norm;
}

void clip_grad_value(const ParameterList& parameters, double limit) {
  ops::clamp_in_place(gradients_of(parameters), limit);
}

}  // namespace tessera::optim
