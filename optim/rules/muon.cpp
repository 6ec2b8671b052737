#include "optim/rules/muon.h"

#include <algorithm>
#include <cmath>

#include "optim/parameter_list_checks.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/reduction.h"

namespace tessera::optim {
namespace {

void check_options(const std::string& optimizer, const MuonOptions& o) {
  require_not_negative(optimizer, "weight_decay", o.weight_decay);
  require_fraction(optimizer, "momentum", o.momentum);
  require_not_negative(optimizer, "eps", o.eps);
  require_at_least(optimizer, "ns_steps", o.ns_steps, 0);
  for (const double coefficient : o.ns_coefficients)
    require<ConfigError>(std::isfinite(coefficient), optimizer, ": expected finite ns_coefficients, got ",
                         coefficient);
}

void check_parameters(const std::string& optimizer, const ParameterList& parameters) {
  require_full(parameters, optimizer, "its step multiplies full matrices");
  for (const NamedParameter& parameter : parameters)
    require<ValueError>(!parameter.variable.defined() || parameter.full_shape().ndim() == 2, optimizer,
                        ": expected matrices, got parameter '", parameter.name, "' ", parameter.full_shape(),
                        ": give such parameters to another optimizer (AdamW), see ParameterList::where");
}

/// A matrix with the singular vectors of x and singular values near 1.
Tensor orthogonalized(const Tensor& x, const MuonOptions& o) {
  const auto [a, b, c] = o.ns_coefficients;
  const bool is_tall = x.size(0) > x.size(1);
  Tensor y = is_tall ? x.transpose(0, 1) : x;
  y = ops::div(y, ops::maximum(ops::norm(y), o.eps));
  for (int64_t k = 0; k < o.ns_steps; ++k) {
    const Tensor gram = ops::matmul(y, y.transpose(0, 1));
    const Tensor factor = ops::add(ops::mul(gram, b), ops::mul(ops::matmul(gram, gram), c));
    y = ops::add(ops::mul(y, a), ops::matmul(factor, y));
  }
  return is_tall ? y.transpose(0, 1) : y;
}

double rate_factor(MuonRate rate, const Shape& shape) {
  const double rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
  if (rate == MuonRate::match_rms_adamw) return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(rate == MuonRate::original ? std::max(1.0, rows / columns) : rows / columns);
}

}  // namespace

Muon::Muon(const std::vector<ParameterGroup<Options>>& groups)
    : PlainOptimizer("Muon", groups,
                     {{{.name = "weight_decay", .value = &Options::weight_decay},
                       {.name = "momentum", .value = &Options::momentum},
                       {.name = "nesterov", .flag = &Options::nesterov},
                       {.name = "eps", .value = &Options::eps},
                       {.name = "ns_steps", .count = &Options::ns_steps}},
                      &check_options},
                     &check_parameters) {}

void Muon::step_parameter(const PlainParameter& p, const Options& o) const {
  if (p.value.numel() == 0) return;
  const Tensor& buffer = p.state[0];
  buffer.copy_from(ops::lerp(buffer, p.gradient, 1.0 - o.momentum));
  const Tensor change = o.nesterov ? ops::lerp(p.gradient, buffer, o.momentum) : buffer;
  ops::mul_(p.value, 1.0 - p.lr * o.weight_decay);
  ops::sub_(p.value,
            ops::mul(orthogonalized(change, o), p.lr * rate_factor(o.adjust_lr_fn, p.value.shape())));
}

}  // namespace tessera::optim
