#include "nn/materialize.h"

#include <unordered_set>

namespace tessera::nn {

void materialize(Module& module, Device device, uint64_t seed) {
  if (device.is_meta()) return;
  CategoryScope category(MemoryCategory::parameter);
  module.for_each([&](Module& part) {
    for (Module::Slot& slot : part.slots()) {
      if (!slot.variable.value().is_meta()) continue;  // done already, or shared with an earlier module
      const std::string name = part.full_name().empty() ? slot.name : part.full_name() + "." + slot.name;
      require<ConfigError>(slot.program.defined(), "materialize: '", name,
                           "' was declared without an initialiser");
      const Tensor numbers = Tensor::empty(slot.variable.shape(), slot.variable.dtype(), device);
      slot.program.fill(numbers, init::parameter_key(seed, name), numbers.shape());
      numbers.storage()->set_label(name);
      slot.variable.set_value(numbers);
      slot.variable.set_name(name);
    }
  });
}

}  // namespace tessera::nn
