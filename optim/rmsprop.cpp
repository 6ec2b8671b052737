#include "optim/rmsprop.h"

namespace tessera::optim {
namespace {

using Group = ops::RmspropGroup;

constexpr OptionField<Group> fields[] = {{.name = "alpha", .value = &Group::alpha},
                                         {.name = "eps", .value = &Group::eps},
                                         {.name = "weight_decay", .value = &Group::weight_decay},
                                         {.name = "momentum", .value = &Group::momentum},
                                         {.name = "centered", .flag = &Group::centered}};

void check(const std::string& optimizer, const Group& group) {
  require_fraction(optimizer, "alpha", group.alpha);
  require_not_negative(optimizer, "eps", group.eps);
  require_not_negative(optimizer, "weight_decay", group.weight_decay);
  require_not_negative(optimizer, "momentum", group.momentum);
}

}  // namespace

RMSprop::RMSprop(const ParameterList& parameters, const Options& options)
    : RMSprop({{parameters, options}}) {}

RMSprop::RMSprop(const std::vector<ParameterGroup<Options>>& groups)
    : FusedOptimizer("RMSprop", fields, &check) {
  for (const auto& [parameters, options] : groups)
    add_group(parameters, options.lr,
              {.lr = {},
               .alpha = options.alpha,
               .eps = options.eps,
               .weight_decay = options.weight_decay,
               .momentum = options.momentum,
               .centered = options.centered});
  require_parameters();
}

std::vector<Optimizer::Slot> RMSprop::slots(int group) const {
  std::vector<Slot> slots = {{"square_avg", 0}};
  if (groups_[group].momentum != 0.0) slots.push_back({"momentum_buffer", 1});
  if (groups_[group].centered) slots.push_back({"grad_avg", 2});
  return slots;
}

void RMSprop::update(std::span<const ops::UpdateItem> items, const Tensor& clip) {
  ops::rmsprop_update(items, groups_, clip);
}

}  // namespace tessera::optim
