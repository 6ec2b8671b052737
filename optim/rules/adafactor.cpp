#include "optim/rules/adafactor.h"

#include <algorithm>
#include <cmath>

#include "optim/parameter_list_checks.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/reduction.h"

namespace tessera::optim {
namespace {

void check_options(const std::string& optimizer, const AdafactorOptions& o) {
  require<ConfigError>(o.beta2_decay <= 0.0, optimizer, ": expected beta2_decay to be at most 0, got ",
                       o.beta2_decay);
  require_not_negative(optimizer, "eps[0]", o.eps[0]);
  require_not_negative(optimizer, "eps[1]", o.eps[1]);
  require<ConfigError>(o.d >= 1.0, optimizer, ": expected d to be at least 1, got ", o.d);
  require_not_negative(optimizer, "weight_decay", o.weight_decay);
}

void check_parameters(const std::string& optimizer, const ParameterList& parameters) {
  require_full(parameters, optimizer, "its second mean is over rows and columns of full parameters");
}

Shape with_one(Shape shape, int64_t dim) {
  shape[shape.ndim() + dim] = 1;
  return shape;
}

std::optional<Shape> row_shape(const Shape& parameter) {
  if (parameter.ndim() < 2) return std::nullopt;
  return with_one(parameter, -1);
}

std::optional<Shape> column_shape(const Shape& parameter) {
  if (parameter.ndim() < 2) return std::nullopt;
  return with_one(parameter, -2);
}

std::optional<Shape> vector_shape(const Shape& parameter) {
  if (parameter.ndim() >= 2) return std::nullopt;
  return parameter;
}

/// 0-dim f64 on x's device, which the host does not wait for.
Tensor root_mean_square(const Tensor& x) {
  return ops::div(ops::cast(ops::norm(x), f64), std::sqrt(static_cast<double>(x.numel())));
}

/// mean += share (mean of g^2 along `dim` - mean).
void take_mean(const Tensor& mean, const Tensor& g, int64_t dim, double share) {
  const Tensor squares =
      ops::div(ops::square(ops::norm(g, 2, {dim}, /*keepdim=*/true)), static_cast<double>(g.size(dim)));
  mean.copy_from(ops::lerp(mean, squares, share));
}

/// The second mean of every element, after the share of this step's gradient is taken.
Tensor second_mean(const PlainParameter& p, double share, double eps) {
  const auto& [rows, columns, variance] = p.state;
  const Tensor& g = p.gradient;
  if (g.ndim() < 2) {
    variance.copy_from(ops::lerp(variance, ops::square(g), share));
    return variance;
  }
  take_mean(rows, g, -1, share);
  take_mean(columns, g, -2, share);
  const Tensor total = ops::maximum(ops::mean(rows, {-2}, /*keepdim=*/true), eps);
  return ops::div(ops::mul(rows, columns), total);
}

}  // namespace

Adafactor::Adafactor(const std::vector<ParameterGroup<Options>>& groups)
    : PlainOptimizer("Adafactor", groups,
                     {{{.name = "beta2_decay", .value = &Options::beta2_decay},
                       {.name = "eps1", .element = [](Options& o) -> double& { return o.eps[0]; }},
                       {.name = "eps2", .element = [](Options& o) -> double& { return o.eps[1]; }},
                       {.name = "d", .value = &Options::d},
                       {.name = "weight_decay", .value = &Options::weight_decay},
                       {.name = "maximize", .flag = &Options::maximize}},
                      &check_options},
                     &check_parameters) {}

std::vector<Optimizer::StateTensor> Adafactor::state_tensors(int) const {
  return {{.name = "row_var", .index = 0, .shape = &row_shape},
          {.name = "col_var", .index = 1, .shape = &column_shape},
          {.name = "variance", .index = 2, .shape = &vector_shape}};
}

void Adafactor::step_parameter(const PlainParameter& p, const Options& o) const {
  if (p.value.numel() == 0) return;
  const double rounding = std::ldexp(1.0, p.value.dtype() == f64 ? -52 : -23);
  const double eps = o.eps[0] > 0.0 ? o.eps[0] : rounding, step = static_cast<double>(p.step);
  const Tensor rate =
      ops::mul(ops::maximum(root_mean_square(p.value), o.eps[1]), std::min(p.lr, 1.0 / std::sqrt(step)));
  if (o.weight_decay != 0.0) ops::mul_(p.value, 1.0 - p.lr * o.weight_decay);
  const Tensor second = second_mean(p, std::pow(step, o.beta2_decay), eps);
  const Tensor update = ops::mul(ops::rsqrt(ops::maximum(second, eps * eps)), p.gradient);
  const Tensor size = ops::maximum(ops::div(root_mean_square(update), o.d), 1.0);
  ops::sub_(p.value, ops::mul(update, ops::cast(ops::div(rate, size), update.dtype())));
}

}  // namespace tessera::optim
