#pragma once

#include <string>
#include <utility>
#include <vector>

#include "optim/optimizer.h"
#include "optim/option_table.h"
#include "tensor/ops/training/optimizer_update.h"

namespace tessera::optim {

/// An Optimizer whose step is the fused update of a rule (tensor/elementwise/update_rules): one pass over all
/// parameters. The rule's members are the options of a group except the learning rate.
template <class Rule, class OptionsType>
class FusedOptimizer : public Optimizer {
 public:
  using UpdateRule = Rule;      ///< the fused rule
  using Options = OptionsType;  ///< those of a group

  /// Adds parameters with options of their own; their state begins at their first step. Throws as the
  /// constructor; then it adds nothing.
  void add_param_group(const ParameterGroup<Options>& group) {
    const Rule rule = rule_(group.options);
    table_.require_in_range(name(), rule);
    groups_.push_back({add_group(group.parameters, group.options.lr), rule});
  }

 protected:
  /// `rule`: the rule with the options of a group. `table`: the rule's members that are saved, by name.
  /// Throws ConfigError for an option out of range, and as `Optimizer::add_group`.
  FusedOptimizer(std::string name, const std::vector<ParameterGroup<Options>>& groups,
                 Rule (*rule)(const Options& options), OptionTable<Rule> table)
      : Optimizer(std::move(name)), rule_(rule), table_(std::move(table)) {
    for (const ParameterGroup<Options>& group : groups) add_param_group(group);
    require_parameters();
  }

  /// The rule of a group.
  const Rule& group_rule(int group) const { return groups_[static_cast<size_t>(group)].rule; }

  /// The states that the rule has with the options of the group.
  std::vector<StateTensor> state_tensors(int group) const override {
    std::vector<StateTensor> states;
    for (int k = 0; k < static_cast<int>(std::size(Rule::states)); ++k)
      if (elementwise::has_state<Rule>(group_rule(group).variant(), k))
        states.push_back({Rule::states[k].name, k});
    return states;
  }

  /// The fused update of all items.
  void update(std::span<const ops::UpdateItem> items, const Tensor& clip) override {
    ops::optimizer_update<Rule>(items, {groups_.data(), groups_.size()}, clip);
  }

  /// The options of the table.
  std::vector<NamedOption> options(int group) const override { return table_.values(group_rule(group)); }

  /// Sets or checks the options of the table; throws as `OptionTable::loaded`.
  void load_options(int group, std::span<const NamedOption> saved, bool apply) override {
    const Rule loaded = table_.loaded(name(), group, group_rule(group), saved);
    if (apply) groups_[static_cast<size_t>(group)].rule = loaded;
  }

 private:
  std::vector<ops::UpdateGroup<Rule>> groups_;
  Rule (*rule_)(const Options&);
  OptionTable<Rule> table_;
};

}  // namespace tessera::optim
