#include "nn/sequence/hold.h"

#include "tensor/error.h"

namespace tessera::nn {

namespace {

void require_unsharded(const Module& root, const char* where) {
  require<ConfigError>(!root.store(), where, ": the parameters of ", root.kind(), " '", root.full_name(),
                       "' are sharded; cut the model into stages before dist::shard");
}

void require_no_master(const Module& module, const Module::Entry& entry, const char* where) {
  require<ConfigError>(!entry.master.defined(), where, ": '", entry.name, "' of '", module.full_name(),
                       "' is in mixed precision; cut the model into stages before");
}

void collect_elsewhere(const Module& module, const std::string& prefix, std::set<std::string>& names) {
  for (const Module::Entry& entry : module.entries())
    if (!entry.held) names.insert(prefix + entry.name);
  for (const Module::Child& child : module.child_entries())
    collect_elsewhere(*child.module, prefix + child.name + ".", names);
}

}  // namespace

void hold_only(Module& root, const ParameterSet& held) {
  require_unsharded(root, "hold_only");
  const ParameterSet below = variables_below(root);
  for (const VariableImpl* variable : held)
    require<ConfigError>(below.contains(variable), "hold_only: expected parameters and buffers below ",
                         root.kind(), " '", root.full_name(), "', got another module's");
  root.for_each([](const Module& module) {
    for (const Module::Entry& entry : module.entries()) require_no_master(module, entry, "hold_only");
  });
  root.for_each([&](Module& module) {
    for (Module::Entry& entry : module.entries()) {
      if (!entry.held || !entry.variable.defined() || held.contains(entry.variable.impl().get())) continue;
      entry.held = false;
      const Tensor& values = entry.variable.value();
      entry.variable.set_grad({});
      if (!values.is_meta()) entry.variable.set_value(Tensor::empty(values.shape(), values.dtype(), meta()));
    }
  });
}

void require_whole(const Module& root) {
  require_unsharded(root, "stages");
  root.for_each([](const Module& module) {
    for (const Module::Entry& entry : module.entries()) {
      require_no_master(module, entry, "stages");
      require<ConfigError>(entry.held, "stages: the model is cut already: '", entry.name, "' of '",
                           module.full_name(), "' belongs to another rank");
    }
  });
}

std::set<std::string> names_held_elsewhere(const Module& module) {
  std::set<std::string> names;
  collect_elsewhere(module, "", names);
  return names;
}

ParameterSet variables_below(const Module& module) {
  ParameterSet found;
  module.for_each_entry(
      [&](const std::string&, const Module::Entry& entry) { found.insert(entry.variable.impl().get()); });
  return found;
}

}  // namespace tessera::nn
