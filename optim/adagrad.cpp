#include "optim/adagrad.h"

namespace tessera::optim {
namespace {

using Group = ops::AdagradGroup;

constexpr OptionField<Group> fields[] = {{.name = "lr_decay", .value = &Group::lr_decay},
                                         {.name = "eps", .value = &Group::eps},
                                         {.name = "weight_decay", .value = &Group::weight_decay}};

void check(const std::string& optimizer, const Group& group) {
  require_not_negative(optimizer, "lr_decay", group.lr_decay);
  require_not_negative(optimizer, "eps", group.eps);
  require_not_negative(optimizer, "weight_decay", group.weight_decay);
}

}  // namespace

Adagrad::Adagrad(const ParameterList& parameters, const Options& options)
    : Adagrad({{parameters, options}}) {}

Adagrad::Adagrad(const std::vector<ParameterGroup<Options>>& groups)
    : FusedOptimizer("Adagrad", fields, &check) {
  for (const auto& [parameters, options] : groups) {
    require_not_negative(name(), "initial_accumulator_value", options.initial_accumulator_value);
    initial_.push_back(options.initial_accumulator_value);
    add_group(
        parameters, options.lr,
        {.lr = {}, .lr_decay = options.lr_decay, .eps = options.eps, .weight_decay = options.weight_decay});
  }
  require_parameters();
}

std::vector<Optimizer::Slot> Adagrad::slots(int group) const {
  return {{"sum", 0, initial_[group]}};
}

void Adagrad::update(std::span<const ops::UpdateItem> items, const Tensor& clip) {
  ops::adagrad_update(items, groups_, clip);
}

}  // namespace tessera::optim
