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
  using UpdateRule = Rule;  ///< the fused rule

 protected:
  /// `table`: the rule's members that are saved, by name.
  FusedOptimizer(std::string name, OptionTable<Rule> table)
      : Optimizer(std::move(name)), table_(std::move(table)) {}

  /// As `Optimizer::add_group`, with the group's options. Throws ConfigError also for an option out of range.
  void add_group(const ParameterList& parameters, double lr, const Rule& rule) {
    table_.require_in_range(name(), rule);
    groups_.push_back({Optimizer::add_group(parameters, lr), rule});
  }

  /// The states that the rule has with the options of the group.
  std::vector<Slot> slots(int group) const override {
    std::vector<Slot> slots;
    for (int k = 0; k < static_cast<int>(std::size(Rule::states)); ++k)
      if (elementwise::has_state<Rule>(groups_[group].rule.variant(), k))
        slots.push_back({Rule::states[k].name, k});
    return slots;
  }

  /// The fused update of all items.
  void update(std::span<const ops::UpdateItem> items, const Tensor& clip) override {
    ops::optimizer_update<Rule>(items, groups_, clip);
  }

  /// The options of the table.
  std::vector<NamedOption> options(int group) const override { return table_.values(groups_[group].rule); }

  /// Sets or checks the options of the table; throws as `OptionTable::loaded`.
  void load_options(int group, std::span<const NamedOption> saved, bool apply) override {
    const Rule loaded = table_.loaded(name(), group, groups_[group].rule, saved);
    if (apply) groups_[group].rule = loaded;
  }

 private:
  std::vector<ops::UpdateGroup<Rule>> groups_;
  OptionTable<Rule> table_;
};

}  // namespace tessera::optim
