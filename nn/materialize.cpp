#include "nn/materialize.h"

#include <unordered_map>

namespace tessera::nn {

namespace {

/// The program of every parameter and buffer, whichever of its owners declared it: a shared one may come
/// first under a name that only refers to it.
std::unordered_map<const VariableImpl*, const init::Program*> recorded_programs(Module& module) {
  std::unordered_map<const VariableImpl*, const init::Program*> programs;
  module.for_each([&](Module& part) {
    for (const Module::Slot& slot : part.slots())
      if (slot.program.defined()) programs.emplace(slot.variable.impl().get(), &slot.program);
  });
  return programs;
}

}  // namespace

void materialize(Module& module, Device device, uint64_t seed) {
  if (device.is_meta()) return;
  CategoryScope category(MemoryCategory::parameter);
  if (ParameterStore* store = module.store()) store->materialize(device, seed);  // what is left is done here
  const auto programs = recorded_programs(module);
  module.for_each([&](Module& part) {
    for (Module::Slot& slot : part.slots()) {
      if (!slot.variable.value().is_meta()) continue;  // done already, here or under an earlier name
      const std::string name = part.full_name().empty() ? slot.name : part.full_name() + "." + slot.name;
      require<ConfigError>(!slot.master.defined(), "materialize: '", name,
                           "' is in mixed precision already: its numbers come first, then the rounding");
      const auto program = programs.find(slot.variable.impl().get());
      require<ConfigError>(program != programs.end(), "materialize: '", name,
                           "' was declared without an initialiser");
      const Tensor numbers = Tensor::empty(slot.variable.shape(), slot.variable.dtype(), device);
      program->second->fill(numbers, init::parameter_key(seed, name), numbers.shape());
      numbers.storage()->set_label(name);
      slot.variable.set_value(numbers);
      slot.variable.set_name(name);
    }
  });
}

}  // namespace tessera::nn
