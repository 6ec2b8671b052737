#include "optim/rules/nadam.h"

namespace tessera::optim {
namespace {

using Rule = elementwise::NadamRule;

Rule rule(const NAdamOptions& o) {
  return {.beta1 = o.betas[0],
          .beta2 = o.betas[1],
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .momentum_decay = o.momentum_decay,
          .decoupled = o.decoupled_weight_decay,
          .maximize = o.maximize};
}

void check(const std::string& optimizer, const Rule& rule) {
  require_fraction(optimizer, "betas[0]", rule.beta1);
  require_fraction(optimizer, "betas[1]", rule.beta2);
  require_not_negative(optimizer, "eps", rule.eps);
  require_not_negative(optimizer, "weight_decay", rule.weight_decay);
  require_not_negative(optimizer, "momentum_decay", rule.momentum_decay);
}

}  // namespace

template class FusedOptimizer<elementwise::NadamRule, NAdamOptions>;

NAdam::NAdam(const ParameterList& parameters, const Options& options) : NAdam({{parameters, options}}) {}

NAdam::NAdam(const std::vector<ParameterGroup<Options>>& groups)
    : FusedOptimizer("NAdam", groups, &rule,
                     {{{.name = "beta1", .value = &Rule::beta1},
                       {.name = "beta2", .value = &Rule::beta2},
                       {.name = "eps", .value = &Rule::eps},
                       {.name = "weight_decay", .value = &Rule::weight_decay},
                       {.name = "momentum_decay", .value = &Rule::momentum_decay},
                       {.name = "decoupled_weight_decay", .flag = &Rule::decoupled},
                       {.name = "maximize", .flag = &Rule::maximize}},
                      &check}) {}

}  // namespace tessera::optim
