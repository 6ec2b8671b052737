#include "optim/rmsprop.h"

namespace tessera::optim {
namespace {

using Group = ops::RmspropGroup;

constexpr OptionField<Group> fields[] = {{.name = "alpha", .number = &Group::alpha},
                                         {.name = "eps", .number = &Group::eps},
                                         {.name = "weight_decay", .number = &Group::weight_decay},
                                         {.name = "momentum", .number = &Group::momentum},
                                         {.name = "centered", .flag = &Group::centered}};

void check(const std::string& who, const Group& group) {
  require_share(who, "alpha", group.alpha);
  require_not_negative(who, "eps", group.eps);
  require_not_negative(who, "weight_decay", group.weight_decay);
  require_not_negative(who, "momentum", group.momentum);
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
  std::vector<Slot> kept = {{"square_avg", 0}};
  if (groups_[group].momentum != 0.0) kept.push_back({"momentum_buffer", 1});
  if (groups_[group].centered) kept.push_back({"grad_avg", 2});
  return kept;
}

void RMSprop::update(std::span<const ops::UpdateItem> items, const Tensor& clip) {
  ops::rmsprop_update(items, groups_, clip);
}

}  // namespace tessera::optim
