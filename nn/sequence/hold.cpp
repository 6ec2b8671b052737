#include "nn/sequence/hold.h"

#include "tensor/error.h"

namespace tessera::nn {

void hold_only(Module& root, const ParameterSet& held) {
  require<ConfigError>(!root.store(), "hold_only: the parameters of ", root.kind(), " '", root.full_name(),
                       "' are sharded; cut the model into stages before dist::shard");
  const ParameterSet below = variables_below(root);
  for (const VariableImpl* variable : held)
    require<ConfigError>(below.contains(variable), "hold_only: expected parameters and buffers below ",
                         root.kind(), " '", root.full_name(), "', got another module's");
  root.for_each([&](Module& module) {
    for (Module::Entry& entry : module.entries()) {
      require<ConfigError>(!entry.master.defined(), "hold_only: '", entry.name, "' of '", module.full_name(),
                           "' is in mixed precision; cut the model into stages before");
      if (!entry.held || held.contains(entry.variable.impl().get())) continue;
      entry.held = false;
      const Tensor& values = entry.variable.value();
      entry.variable.set_grad({});
      if (!values.is_meta()) entry.variable.set_value(Tensor::empty(values.shape(), values.dtype(), meta()));
    }
  });
}

ParameterSet variables_below(const Module& module) {
  ParameterSet found;
  module.for_each_entry(
      [&](const std::string&, const Module::Entry& entry) { found.insert(entry.variable.impl().get()); });
  return found;
}

}  // namespace tessera::nn
