#include "optim/rules/adam.h"

namespace tessera::optim {
namespace {

using Rule = elementwise::AdamRule;

void check(const std::string& optimizer, const Rule& rule) {
  require_fraction(optimizer, "betas[0]", rule.beta1);
  require_fraction(optimizer, "betas[1]", rule.beta2);
  require_not_negative(optimizer, "eps", rule.eps);
  require_not_negative(optimizer, "weight_decay", rule.weight_decay);
}

/// The saved options, the same for both.
OptionTable<Rule> table() {
  return {{{.name = "beta1", .value = &Rule::beta1},
           {.name = "beta2", .value = &Rule::beta2},
           {.name = "eps", .value = &Rule::eps},
           {.name = "weight_decay", .value = &Rule::weight_decay},
           {.name = "amsgrad", .flag = &Rule::amsgrad},
           {.name = "decoupled_weight_decay", .flag = &Rule::decoupled},
           {.name = "maximize", .flag = &Rule::maximize}},
          &check};
}

template <class Options>
Rule rule_of(const Options& o, bool decoupled) {
  return {.beta1 = o.betas[0],
          .beta2 = o.betas[1],
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .decoupled = decoupled,
          .amsgrad = o.amsgrad,
          .maximize = o.maximize};
}
Rule adam(const AdamOptions& o) {
  return rule_of(o, o.decoupled_weight_decay);
}
Rule adamw(const AdamWOptions& o) {
  return rule_of(o, true);
}

}  // namespace

template class FusedOptimizer<elementwise::AdamRule, AdamOptions>;
template class FusedOptimizer<elementwise::AdamRule, AdamWOptions>;

Adam::Adam(const ParameterList& parameters, const Options& options) : Adam({{parameters, options}}) {}

Adam::Adam(const std::vector<ParameterGroup<Options>>& groups)
    : FusedOptimizer("Adam", groups, &adam, table()) {}

AdamW::AdamW(const ParameterList& parameters, const Options& options) : AdamW({{parameters, options}}) {}

AdamW::AdamW(const std::vector<ParameterGroup<Options>>& groups)
    : FusedOptimizer("AdamW", groups, &adamw, table()) {}

}  // namespace tessera::optim
