#include "optim/rules/sgd.h"

namespace tessera::optim {
namespace {

using Rule = elementwise::SgdRule;

Rule rule(const SGDOptions& o) {
  return {.momentum = o.momentum,
          .dampening = o.dampening,
          .weight_decay = o.weight_decay,
          .nesterov = o.nesterov,
          .maximize = o.maximize};
}

void check(const std::string& optimizer, const Rule& rule) {
  require_not_negative(optimizer, "momentum", rule.momentum);
  require_not_negative(optimizer, "weight_decay", rule.weight_decay);
  require<ConfigError>(!rule.nesterov || (rule.momentum > 0.0 && rule.dampening == 0.0), optimizer,
                       ": nesterov needs momentum and no dampening, got momentum ", rule.momentum,
                       " and dampening ", rule.dampening);
}

}  // namespace

template class FusedOptimizer<elementwise::SgdRule, SGDOptions>;

SGD::SGD(const ParameterList& parameters, const Options& options) : SGD({{parameters, options}}) {}

SGD::SGD(const std::vector<ParameterGroup<Options>>& groups)
    : FusedOptimizer("SGD", groups, &rule,
                     {{{.name = "momentum", .value = &Rule::momentum},
                       {.name = "dampening", .value = &Rule::dampening},
                       {.name = "weight_decay", .value = &Rule::weight_decay},
                       {.name = "nesterov", .flag = &Rule::nesterov},
                       {.name = "maximize", .flag = &Rule::maximize}},
                      &check}) {}

}  // namespace tessera::optim
