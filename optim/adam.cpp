#include "optim/adam.h"

namespace tessera::optim {
namespace {

using Group = ops::AdamGroup;

constexpr OptionField<Group> fields[] = {{.name = "beta1", .value = &Group::beta1},
                                         {.name = "beta2", .value = &Group::beta2},
                                         {.name = "eps", .value = &Group::eps},
                                         {.name = "weight_decay", .value = &Group::weight_decay},
                                         {.name = "amsgrad", .flag = &Group::amsgrad}};

void check(const std::string& optimizer, const Group& group) {
  require_fraction(optimizer, "betas[0]", group.beta1);
  require_fraction(optimizer, "betas[1]", group.beta2);
  require_not_negative(optimizer, "eps", group.eps);
  require_not_negative(optimizer, "weight_decay", group.weight_decay);
}

}  // namespace

AdamBase::AdamBase(std::string name) : FusedOptimizer(std::move(name), fields, &check) {}

std::vector<Optimizer::Slot> AdamBase::slots(int group) const {
  std::vector<Slot> slots = {{"exp_avg", 0}, {"exp_avg_sq", 1}};
  if (groups_[group].amsgrad) slots.push_back({"max_exp_avg_sq", 2});
  return slots;
}

void AdamBase::update(std::span<const ops::UpdateItem> items, const Tensor& clip) {
  ops::adam_update(items, groups_, clip);
}

Adam::Adam(const ParameterList& parameters, const Options& options) : Adam({{parameters, options}}) {}

Adam::Adam(const std::vector<ParameterGroup<Options>>& groups) : AdamBase("Adam") {
  for (const auto& [parameters, options] : groups) add(parameters, options, /*decoupled=*/false);
  require_parameters();
}

AdamW::AdamW(const ParameterList& parameters, const Options& options) : AdamW({{parameters, options}}) {}

AdamW::AdamW(const std::vector<ParameterGroup<Options>>& groups) : AdamBase("AdamW") {
  for (const auto& [parameters, options] : groups) add(parameters, options, /*decoupled=*/true);
  require_parameters();
}

}  // namespace tessera::optim
