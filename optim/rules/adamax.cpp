#include "optim/rules/adamax.h"

namespace tessera::optim {
namespace {

using Rule = elementwise::AdamaxRule;

Rule rule(const AdamaxOptions& o) {
  return {.beta1 = o.betas[0],
          .beta2 = o.betas[1],
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .maximize = o.maximize};
}

void check(const std::string& optimizer, const Rule& rule) {
  require_fraction(optimizer, "betas[0]", rule.beta1);
  require_fraction(optimizer, "betas[1]", rule.beta2);
  require_not_negative(optimizer, "eps", rule.eps);
  require_not_negative(optimizer, "weight_decay", rule.weight_decay);
}

}  // namespace

template class FusedOptimizer<elementwise::AdamaxRule, AdamaxOptions>;

Adamax::Adamax(const ParameterList& parameters, const Options& options) : Adamax({{parameters, options}}) {}

Adamax::Adamax(const std::vector<ParameterGroup<Options>>& groups)
    : FusedOptimizer("Adamax", groups, &rule,
                     {{{.name = "beta1", .value = &Rule::beta1},
                       {.name = "beta2", .value = &Rule::beta2},
                       {.name = "eps", .value = &Rule::eps},
                       {.name = "weight_decay", .value = &Rule::weight_decay},
                       {.name = "maximize", .flag = &Rule::maximize}},
                      &check}) {}

}  // namespace tessera::optim
