#include "optim/rules/radam.h"

#include "optim/rules/adam_options.h"

namespace tessera::optim {
namespace {

using Rule = elementwise::RadamRule;

Rule rule(const RAdamOptions& o) {
  return {.beta1 = o.betas[0],
          .beta2 = o.betas[1],
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .decoupled = o.decoupled_weight_decay,
          .maximize = o.maximize};
}

}  // namespace

template class FusedOptimizer<elementwise::RadamRule, RAdamOptions>;

RAdam::RAdam(const ParameterList& parameters, const Options& options) : RAdam({{parameters, options}}) {}

RAdam::RAdam(const std::vector<ParameterGroup<Options>>& groups)
    : FusedOptimizer("RAdam", groups, &rule, adam_options<Rule>()) {}

}  // namespace tessera::optim
