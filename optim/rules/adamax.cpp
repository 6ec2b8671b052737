#include "optim/rules/adamax.h"

#include "optim/rules/adam_options.h"

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

}  // namespace

template class FusedOptimizer<elementwise::AdamaxRule, AdamaxOptions>;

Adamax::Adamax(const ParameterList& parameters, const Options& options) : Adamax({{parameters, options}}) {}

Adamax::Adamax(const std::vector<ParameterGroup<Options>>& groups)
    : FusedOptimizer("Adamax", groups, &rule, adam_options<Rule>()) {}

}  // namespace tessera::optim
