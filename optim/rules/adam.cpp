#include "optim/rules/adam.h"

#include "optim/rules/adam_options.h"

namespace tessera::optim {
namespace {

using Rule = elementwise::AdamRule;

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
    : FusedOptimizer("Adam", groups, &adam, adam_options<Rule>()) {}

AdamW::AdamW(const ParameterList& parameters, const Options& options) : AdamW({{parameters, options}}) {}

AdamW::AdamW(const std::vector<ParameterGroup<Options>>& groups)
    : FusedOptimizer("AdamW", groups, &adamw, adam_options<Rule>()) {}

}  // namespace tessera::optim
