#include "optim/rules/rmsprop.h"

namespace tessera::optim {
namespace {

using Rule = elementwise::RmspropRule;

Rule rule(const RMSpropOptions& o) {
  return {.alpha = o.alpha,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .momentum = o.momentum,
          .centered = o.centered,
          .maximize = o.maximize};
}

void check(const std::string& optimizer, const Rule& rule) {
  require_fraction(optimizer, "alpha", rule.alpha);
  require_not_negative(optimizer, "eps", rule.eps);
  require_not_negative(optimizer, "weight_decay", rule.weight_decay);
  require_not_negative(optimizer, "momentum", rule.momentum);
}

}  // namespace

template class FusedOptimizer<elementwise::RmspropRule, RMSpropOptions>;

RMSprop::RMSprop(const ParameterList& parameters, const Options& options)
    : RMSprop({{parameters, options}}) {}

RMSprop::RMSprop(const std::vector<ParameterGroup<Options>>& groups)
    : FusedOptimizer("RMSprop", groups, &rule,
                     {{{.name = "alpha", .value = &Rule::alpha},
                       {.name = "eps", .value = &Rule::eps},
                       {.name = "weight_decay", .value = &Rule::weight_decay},
                       {.name = "momentum", .value = &Rule::momentum},
                       {.name = "centered", .flag = &Rule::centered},
                       {.name = "maximize", .flag = &Rule::maximize}},
                      &check}) {}

}  // namespace tessera::optim
