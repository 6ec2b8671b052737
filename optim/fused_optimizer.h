#pragma once

#include <string>
#include <utility>
#include <vector>

#include "optim/optimizer.h"
#include "optim/option_table.h"
#include "tensor/ops/optimizer_update.h"

namespace tessera::optim {

/// An Optimizer whose step is the fused update of a rule (tensor/elementwise/update_rules): one pass over all
/// parameters. The rule's members are the options of a group.
template <class Rule>
class FusedOptimizer : public Optimizer {
 public:
  using UpdateRule = Rule;

 protected:
  FusedOptimizer(std::string name, OptionTable<Rule> table)
      : Optimizer(std::move(name)), table_(std::move(table)) {}

  void add_group(const ParameterList& parameters, double lr, const Rule& rule) {
    table_.require_in_range(name(), rule);
    groups_.push_back({Optimizer::add_group(parameters, lr), rule});
  }

  std::vector<Slot> slots(int group) const override {
    std::vector<Slot> slots;
    for (int k = 0; k < static_cast<int>(std::size(Rule::states)); ++k)
      if (elementwise::has_state<Rule>(groups_[group].rule.variant(), k))
        slots.push_back({Rule::states[k].name, k});
    return slots;
  }

  void update(std::span<const ops::UpdateItem> items, const Tensor& clip) override {
    ops::optimizer_update<Rule>(items, groups_, clip);
  }

  std::vector<NamedOption> options(int group) const override { return table_.values(groups_[group].rule); }

  void load_options(int group, std::span<const NamedOption> saved, bool apply) override {
    const Rule loaded = table_.loaded(name(), group, groups_[group].rule, saved);
    if (apply) groups_[group].rule = loaded;
  }

 private:
  std::vector<ops::UpdateGroup<Rule>> groups_;
  OptionTable<Rule> table_;
};

}  // namespace tessera::optim
