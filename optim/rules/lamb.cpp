#include "optim/rules/lamb.h"

#include <algorithm>
#include <cmath>

#include "optim/parameter_list_checks.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/reduction.h"
#include "tensor/ops/training/multi_tensor.h"

namespace tessera::optim {
namespace {

void check_options(const std::string& optimizer, const LambOptions& o) {
  require_fraction(optimizer, "betas[0]", o.betas[0]);
  require_fraction(optimizer, "betas[1]", o.betas[1]);
  require_not_negative(optimizer, "eps", o.eps);
  require_not_negative(optimizer, "weight_decay", o.weight_decay);
  require_not_negative(optimizer, "min_coeff", o.min_coeff);
  require<ConfigError>(o.max_coeff >= o.min_coeff, optimizer,
                       ": expected max_coeff to be at least min_coeff (", o.min_coeff, "), got ",
                       o.max_coeff);
}

void check_parameters(const std::string& optimizer, const ParameterList& parameters) {
  require_summable(parameters, optimizer);
}

/// value -= lr factor change, the factor |value| / |change| within its bounds, and 1 where a norm is 0.
/// Norms and factor stay on the parameter's device, which the host does not wait for.
void apply(const Tensor& value, const Tensor& change, double lr, double min_coeff, double max_coeff) {
  const Tensor value_norm = ops::cast(ops::norm(value), f64), change_norm = ops::cast(ops::norm(change), f64);
  const Tensor ratio = ops::clamp(ops::div(value_norm, change_norm), min_coeff, max_coeff);
  const Tensor both = ops::logical_and(ops::greater(value_norm, 0.0), ops::greater(change_norm, 0.0));
  const Tensor factor = ops::mul(ops::where(both, ratio, 1.0), lr);
  ops::sub_(value, ops::mul(change, ops::cast(factor, change.dtype())));
}

/// The same for a shard, from the norms of the whole parameter and of its change.
void apply(const Tensor& value, const Tensor& change, double lr, double min_coeff, double max_coeff,
           double value_norm, double change_norm) {
  const double factor = value_norm > 0.0 && change_norm > 0.0
                            ? std::clamp(value_norm / change_norm, min_coeff, max_coeff)
                            : 1.0;
  ops::sub_(value, ops::mul(change, lr * factor));
}

/// mean = decay mean + (1 - decay) x
void take_mean(const Tensor& mean, const Tensor& x, double decay) {
  ops::mul_(mean, decay);
  ops::add_(mean, ops::mul(x, 1.0 - decay));
}

}  // namespace

Lamb::Lamb(const std::vector<ParameterGroup<Options>>& groups)
    : PlainOptimizer("Lamb", groups,
                     {{{.name = "beta1", .element = [](Options& o) -> double& { return o.betas[0]; }},
                       {.name = "beta2", .element = [](Options& o) -> double& { return o.betas[1]; }},
                       {.name = "eps", .value = &Options::eps},
                       {.name = "weight_decay", .value = &Options::weight_decay},
                       {.name = "maximize", .flag = &Options::maximize},
                       {.name = "min_coeff", .value = &Options::min_coeff},
                       {.name = "max_coeff", .value = &Options::max_coeff}},
                      &check_options},
                     &check_parameters) {}

void Lamb::step_parameter(const PlainParameter& p, const Options& o) const {
  Tensor mean = p.state[0], square_mean = p.state[1];
  take_mean(mean, p.gradient, o.betas[0]);
  take_mean(square_mean, ops::square(p.gradient), o.betas[1]);
  const double bias = 1.0 - elementwise::integer_power(o.betas[0], p.step);
  const double square_bias = 1.0 - elementwise::integer_power(o.betas[1], p.step);
  double lr = p.lr;
  if (o.bias_correction == LambBiasCorrection::means) {
    mean = ops::div(mean, bias);
    square_mean = ops::div(square_mean, square_bias);
  } else if (o.bias_correction == LambBiasCorrection::rate) {
    lr = lr * std::sqrt(square_bias) / bias;
  }
  const Tensor change =
      ops::add(ops::div(mean, ops::add(ops::sqrt(square_mean), o.eps)), ops::mul(p.value, o.weight_decay));
  if (!changes_.empty() && changes_.back().index >= p.index)
    changes_.clear();  // of a step that an error ended
  if (parameters()[p.index].shard)
    changes_.push_back({p.index, p.value, change, lr, o.min_coeff, o.max_coeff});
  else
    apply(p.value, change, lr, o.min_coeff, o.max_coeff);
}

void Lamb::finish_step() const {
  const auto is_shard = [](const NamedParameter& parameter) { return parameter.shard.has_value(); };
  if (std::none_of(parameters().begin(), parameters().end(), is_shard)) return;
  if (parameters()[0].values().is_meta()) return;
  const std::vector<Change> changes = std::exchange(changes_, {});
  std::vector<Tensor> parts;
  for (const Change& c : changes) parts.insert(parts.end(), {c.value, c.change});
  const Tensor own = ops::power_sums(parts, 2.0).to(cpu());
  // A place for every parameter: a rank may have no gradient for a shard without elements.
  std::vector<double> squares(2 * parameters().size(), 0.0);
  for (size_t i = 0; i < parts.size(); ++i) squares[2 * changes[i / 2].index + i % 2] = own.data<double>()[i];
  parameters().reducer()->sum_over_shards(squares);
  for (const Change& c : changes)
    apply(c.value, c.change, c.lr, c.min_coeff, c.max_coeff, std::sqrt(squares[2 * c.index]),
          std::sqrt(squares[2 * c.index + 1]));
}

}  // namespace tessera::optim
