#include "nn/materialize.h"

#include <unordered_map>

namespace tessera::nn {

namespace {

/// The initialiser of every parameter and buffer. Of a shared one, the entry that holds the initialiser need
/// not be the first.
std::unordered_map<const VariableImpl*, const init::Initializer*> recorded_initializers(Module& module) {
  std::unordered_map<const VariableImpl*, const init::Initializer*> initializers;
  module.for_each([&](Module& submodule) {
    for (const Module::Entry& entry : submodule.entries())
      if (entry.initializer.defined() && entry.variable.defined())
        initializers.emplace(entry.variable.impl().get(), &entry.initializer);
  });
  return initializers;
}

}  // namespace

void materialize(Module& module, Device device, uint64_t seed) {
  if (device.is_meta()) return;
  CategoryScope category(MemoryCategory::parameter);
  if (ParameterStore* store = module.store()) store->materialize(device, seed);  // the others follow below
  const auto initializers = recorded_initializers(module);
  module.for_each([&](Module& submodule) {
    const std::string& path = submodule.full_name();
    for (Module::Entry& entry : submodule.entries()) {
      if (!entry.held || !entry.variable.defined()) continue;  // undefined: a call computes it
      if (!entry.variable.value().is_meta()) continue;         // by the store, or an earlier name
      const std::string name = path.empty() ? entry.name : path + "." + entry.name;
      require<ConfigError>(!entry.master.defined(), "materialize: '", name,
                           "' is in mixed precision already: call materialize before use_mixed_precision");
      const auto initializer = initializers.find(entry.variable.impl().get());
      require<ConfigError>(initializer != initializers.end(), "materialize: '", name,
                           "' was declared without an initialiser");
      const Tensor values = Tensor::empty(entry.variable.shape(), entry.variable.dtype(), device);
      initializer->second->fill(values, init::parameter_key(seed, name), values.shape());
      values.storage()->set_label(name);
      entry.variable.set_value(values);
      entry.variable.set_name(name);
    }
  });
}

}  // namespace tessera::nn
