#include "nn/materialize.h"

#include <unordered_map>

namespace tessera::nn {

namespace {

/// The program of every parameter and buffer. Of a shared one, the slot that holds the program need not be
/// the first.
std::unordered_map<const VariableImpl*, const init::Initializer*> recorded_programs(Module& module) {
  std::unordered_map<const VariableImpl*, const init::Initializer*> programs;
  module.for_each([&](Module& submodule) {
    for (const Module::Slot& slot : submodule.slots())
      if (slot.program.defined()) programs.emplace(slot.variable.impl().get(), &slot.program);
  });
  return programs;
}

}  // namespace

void materialize(Module& module, Device device, uint64_t seed) {
  if (device.is_meta()) return;
  CategoryScope category(MemoryCategory::parameter);
  if (ParameterStore* store = module.store()) store->materialize(device, seed);  // the others follow below
  const auto programs = recorded_programs(module);
  module.for_each([&](Module& submodule) {
    const std::string& path = submodule.full_name();
    for (Module::Slot& slot : submodule.slots()) {
      if (!slot.variable.value().is_meta()) continue;  // by the store, or under an earlier name
      const std::string name = path.empty() ? slot.name : path + "." + slot.name;
      require<ConfigError>(!slot.master.defined(), "materialize: '", name,
                           "' is in mixed precision already: call materialize before use_mixed_precision");
      const auto program = programs.find(slot.variable.impl().get());
      require<ConfigError>(program != programs.end(), "materialize: '", name,
                           "' was declared without an initialiser");
      const Tensor values = Tensor::empty(slot.variable.shape(), slot.variable.dtype(), device);
      program->second->fill(values, init::parameter_key(seed, name), values.shape());
      values.storage()->set_label(name);
      slot.variable.set_value(values);
      slot.variable.set_name(name);
    }
  });
}

}  // namespace tessera::nn
