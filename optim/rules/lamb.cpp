#include "optim/rules/lamb.h"

#include "optim/parameter_list_checks.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/reduction.h"

namespace tessera::optim {
namespace {

void check_options(const std::string& optimizer, const LambOptions& o) {
  require_fraction(optimizer, "betas[0]", o.betas[0]);
  require_fraction(optimizer, "betas[1]", o.betas[1]);
  require_not_negative(optimizer, "eps", o.eps);
  require_not_negative(optimizer, "weight_decay", o.weight_decay);
}

void check_parameters(const std::string& optimizer, const ParameterList& parameters) {
  require_full(parameters, optimizer, "its step divides norms of full parameters");
}

/// mean = decay mean + (1 - decay) x; returns it with its bias corrected.
Tensor take_mean(const Tensor& mean, const Tensor& x, double decay, int64_t step) {
  ops::mul_(mean, decay);
  ops::add_(mean, ops::mul(x, 1.0 - decay));
  return ops::div(mean, 1.0 - elementwise::integer_power(decay, step));
}

}  // namespace

Lamb::Lamb(const std::vector<ParameterGroup<Options>>& groups)
    : PlainOptimizer("Lamb", groups,
                     {{{.name = "beta1", .element = [](Options& o) -> double& { return o.betas[0]; }},
                       {.name = "beta2", .element = [](Options& o) -> double& { return o.betas[1]; }},
                       {.name = "eps", .value = &Options::eps},
                       {.name = "weight_decay", .value = &Options::weight_decay},
                       {.name = "maximize", .flag = &Options::maximize}},
                      &check_options},
                     &check_parameters) {}

void Lamb::step_parameter(const PlainParameter& p, const Options& o) const {
  const Tensor mean = take_mean(p.state[0], p.gradient, o.betas[0], p.step);
  const Tensor square_mean = take_mean(p.state[1], ops::square(p.gradient), o.betas[1], p.step);
  const Tensor change =
      ops::add(ops::div(mean, ops::add(ops::sqrt(square_mean), o.eps)), ops::mul(p.value, o.weight_decay));
  const double value_norm = ops::norm(p.value).item(), change_norm = ops::norm(change).item();
  const double ratio = value_norm > 0.0 && change_norm > 0.0 ? value_norm / change_norm : 1.0;
  ops::sub_(p.value, ops::mul(change, p.lr * ratio));
}

}  // namespace tessera::optim
