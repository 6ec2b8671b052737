#include "optim/rules/adadelta.h"

namespace tessera::optim {
namespace {

using Rule = elementwise::AdadeltaRule;

Rule rule(const AdadeltaOptions& o) {
  return {.rho = o.rho, .eps = o.eps, .weight_decay = o.weight_decay, .maximize = o.maximize};
}

void check(const std::string& optimizer, const Rule& rule) {
  require_fraction(optimizer, "rho", rule.rho);
  require_not_negative(optimizer, "eps", rule.eps);
  require_not_negative(optimizer, "weight_decay", rule.weight_decay);
}

}  // namespace

template class FusedOptimizer<elementwise::AdadeltaRule, AdadeltaOptions>;

Adadelta::Adadelta(const ParameterList& parameters, const Options& options)
    : Adadelta({{parameters, options}}) {}

Adadelta::Adadelta(const std::vector<ParameterGroup<Options>>& groups)
    : FusedOptimizer("Adadelta", groups, &rule,
                     {{{.name = "rho", .value = &Rule::rho},
                       {.name = "eps", .value = &Rule::eps},
                       {.name = "weight_decay", .value = &Rule::weight_decay},
                       {.name = "maximize", .flag = &Rule::maximize}},
                      &check}) {}

}  // namespace tessera::optim
