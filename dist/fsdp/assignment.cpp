#include "dist/fsdp/assignment.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tensor/error.h"

namespace tessera::dist {
namespace {

std::string join(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

/// Visits the modules and finds the units that use each parameter, and from them its unit.
class Assignment {
 public:
  Assignment(nn::Module& root, const UnitPolicy& policy, std::span<nn::Module* const> ignored)
      : ignored_(ignored.begin(), ignored.end()) {
    units_.push_back({&root, root.full_name().empty() ? "root" : root.full_name(), {}});
    parents_.push_back(-1);
    for (nn::Module* module : policy.choose(root))
      if (module != &root && !is_ignored(*module)) chosen_.insert(module);
    visit(root, "", 0);
  }

  std::vector<UnitPlan> finish() {
    for (const VariableImpl* variable : order_) {
      Found& found = found_.at(variable);
      units_[found.owner].parameters.push_back(std::move(found.parameter));
    }
    return std::move(units_);
  }

 private:
  struct Found {
    UnitParameter parameter;
    int owner;
  };

  bool is_ignored(const nn::Module& module) const {
    for (const nn::Module* m = &module; m; m = m->parent())
      if (ignored_.contains(m)) return true;
    return false;
  }

  void visit(nn::Module& module, const std::string& path, int unit) {
    if (ignored_.contains(&module)) return;
    if (chosen_.contains(&module)) {
      units_.push_back({&module, module.full_name(), {}});
      parents_.push_back(unit);
      unit = static_cast<int>(units_.size()) - 1;
    }
    for (nn::Module::Entry& entry : module.entries())
      if (!entry.is_buffer && entry.held)
        add_parameter(entry, join(path, entry.name), join(module.full_name(), entry.name), unit);
    for (const nn::Module::Child& child : module.child_entries())
      visit(*child.module, join(path, child.name), unit);
  }

  void add_parameter(nn::Module::Entry& entry, std::string name, std::string key_name, int unit) {
    const VariableImpl* variable = entry.variable.impl().get();
    const auto [place, is_new] = found_.try_emplace(
        variable, Found{{entry.variable, std::move(name), std::move(key_name), nullptr}, unit});
    Found& found = place->second;
    if (is_new) order_.push_back(variable);
    found.owner = common_ancestor(found.owner, unit);
    if (!found.parameter.initializer && entry.initializer.defined())
      found.parameter.initializer = &entry.initializer;
  }

  /// A unit's index is larger than those of the units above it.
  int common_ancestor(int a, int b) const {
    while (a != b) (a > b ? a : b) = parents_[std::max(a, b)];
    return a;
  }

  std::unordered_set<const nn::Module*> ignored_, chosen_;
  std::vector<UnitPlan> units_;
  std::vector<int> parents_;
  std::unordered_map<const VariableImpl*, Found> found_;
  std::vector<const VariableImpl*> order_;
};

}  // namespace

std::vector<UnitPlan> assign_parameters(nn::Module& root, const UnitPolicy& policy,
                                        std::span<nn::Module* const> ignored) {
  for (const nn::Module* module : ignored) {
    const nn::Module* above = module;
    while (above && above != &root) above = above->parent();
    require<ValueError>(above && module != &root, "shard: the ignored module '",
                        module ? module->full_name() : "null", "' is not below the module to shard");
  }
  return Assignment(root, policy, ignored).finish();
}

}  // namespace tessera::dist
