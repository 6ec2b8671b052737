#include "optim/rules/nadam.h"

#include "optim/rules/adam_options.h"

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

}  // namespace

template class FusedOptimizer<elementwise::NadamRule, NAdamOptions>;

NAdam::NAdam(const ParameterList& parameters, const Options& options) : NAdam({{parameters, options}}) {}

NAdam::NAdam(const std::vector<ParameterGroup<Options>>& groups)
    : FusedOptimizer("NAdam", groups, &rule, adam_options<Rule>()) {}

}  // namespace tessera::optim
