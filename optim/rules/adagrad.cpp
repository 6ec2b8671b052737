#include "optim/rules/adagrad.h"

namespace tessera::optim {
namespace {

using Rule = elementwise::AdagradRule;

Rule rule(const AdagradOptions& o) {
  return {.lr_decay = o.lr_decay,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .initial_accumulator_value = o.initial_accumulator_value,
          .maximize = o.maximize};
}

void check(const std::string& optimizer, const Rule& rule) {
  require_not_negative(optimizer, "lr_decay", rule.lr_decay);
  require_not_negative(optimizer, "eps", rule.eps);
  require_not_negative(optimizer, "weight_decay", rule.weight_decay);
  require_not_negative(optimizer, "initial_accumulator_value", rule.initial_accumulator_value);
}

}  // namespace

template class FusedOptimizer<elementwise::AdagradRule, AdagradOptions>;

Adagrad::Adagrad(const ParameterList& parameters, const Options& options)
    : Adagrad({{parameters, options}}) {}

Adagrad::Adagrad(const std::vector<ParameterGroup<Options>>& groups)
    : FusedOptimizer("Adagrad", groups, &rule,
                     {{{.name = "lr_decay", .value = &Rule::lr_decay},
                       {.name = "eps", .value = &Rule::eps},
                       {.name = "weight_decay", .value = &Rule::weight_decay},
                       {.name = "maximize", .flag = &Rule::maximize}},
                      &check}) {}

std::vector<Adagrad::StateTensor> Adagrad::state_tensors(int group) const {
  std::vector<StateTensor> states = FusedOptimizer::state_tensors(group);
  states[0].initial = group_rule(group).initial_accumulator_value;
  return states;
}

}  // namespace tessera::optim
