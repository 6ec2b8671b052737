#include "dist/fsdp/policy.h"

#include <algorithm>
#include <unordered_set>

#include "tensor/error.h"

namespace tessera::dist {
namespace {

/// Number of elements below `module` outside of the units chosen there. Chooses `module` when it is at least
/// `numel` and a call of the module gathers them.
int64_t choose_by_size(nn::Module& module, bool is_root, int64_t numel,
                       std::unordered_set<const VariableImpl*>& seen,
                       std::unordered_set<const nn::Module*>& chosen) {
  int64_t left = 0;
  for (const nn::Module::Entry& entry : module.entries())
    if (entry.held && !entry.is_buffer && seen.insert(entry.variable.impl().get()).second)
      left += entry.variable.numel();
  for (const nn::Module::Child& child : module.child_entries())
    left += choose_by_size(*child.module, false, numel, seen, chosen);
  if (is_root || left < numel || module.is_container() || !module.has_forward()) return left;
  chosen.insert(&module);
  return 0;
}

}  // namespace

UnitPolicy units_where(std::function<bool(const nn::Module&)> predicate) {
  return UnitPolicy([predicate = std::move(predicate)](nn::Module& root) {
    std::vector<nn::Module*> chosen;
    root.for_each([&](nn::Module& module) {
      if (&module != &root && predicate(module)) chosen.push_back(&module);
    });
    return chosen;
  });
}

UnitPolicy units_named(std::vector<std::string> paths) {
  return UnitPolicy([paths = std::move(paths)](nn::Module& root) {
    std::unordered_set<const nn::Module*> named;
    for (const std::string& path : paths) named.insert(&root.at(path));
    return units_where([&named](const nn::Module& module) { return named.contains(&module); }).choose(root);
  });
}

UnitPolicy min_num_params(int64_t numel) {
  require<ConfigError>(numel > 0, "min_num_params: expected a positive number of parameters, got ", numel);
  return UnitPolicy([numel](nn::Module& root) {
    std::unordered_set<const VariableImpl*> seen;
    std::unordered_set<const nn::Module*> chosen;
    choose_by_size(root, true, numel, seen, chosen);
    return units_where([&chosen](const nn::Module& module) { return chosen.contains(&module); }).choose(root);
  });
}

UnitPolicy every_block() {
  return units_where([](const nn::Module& module) {
    const nn::Module* list = module.parent();
    return list && (list->kind() == "ModuleList" || list->kind() == "Sequential");
  });
}

}  // namespace tessera::dist
