#include "optim/sgd.h"

namespace tessera::optim {
namespace {

using Group = ops::SgdGroup;

constexpr OptionField<Group> fields[] = {{.name = "momentum", .value = &Group::momentum},
                                         {.name = "dampening", .value = &Group::dampening},
                                         {.name = "weight_decay", .value = &Group::weight_decay},
                                         {.name = "nesterov", .flag = &Group::nesterov}};

void check(const std::string& optimizer, const Group& group) {
  require_not_negative(optimizer, "momentum", group.momentum);
  require_not_negative(optimizer, "weight_decay", group.weight_decay);
  require<ConfigError>(!group.nesterov || (group.momentum > 0.0 && group.dampening == 0.0), optimizer,
                       ": nesterov needs momentum and no dampening, got momentum ", group.momentum,
                       " and dampening ", group.dampening);
}

}  // namespace

SGD::SGD(const ParameterList& parameters, const Options& options) : SGD({{parameters, options}}) {}

SGD::SGD(const std::vector<ParameterGroup<Options>>& groups) : FusedOptimizer("SGD", fields, &check) {
  for (const auto& [parameters, options] : groups)
    add_group(parameters, options.lr,
              {.lr = {},
               .momentum = options.momentum,
               .dampening = options.dampening,
               .weight_decay = options.weight_decay,
               .nesterov = options.nesterov});
  require_parameters();
}

std::vector<Optimizer::Slot> SGD::slots(int group) const {
  if (groups_[group].momentum == 0.0) return {};
  return {{"momentum_buffer", 0}};
}

void SGD::update(std::span<const ops::UpdateItem> items, const Tensor& clip) {
  ops::sgd_update(items, groups_, clip);
}

}  // namespace tessera::optim
