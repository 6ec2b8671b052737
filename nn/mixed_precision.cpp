#include "nn/mixed_precision.h"

#include "tensor/ops/cast.h"

namespace tessera::nn {

void set_master(Module& module, const Variable& variable, const Tensor& master) {
  module.for_each([&](Module& part) {
    for (Module::Slot& slot : part.slots())
      if (slot.variable.is_same(variable)) slot.master = master;
  });
}

void use_mixed_precision(Module& module, DType compute) {
  require<DTypeError>(compute == bf16 || compute == f16, "use_mixed_precision: expected bf16 or f16, got ",
                      compute);
  require<ConfigError>(!module.store(), "use_mixed_precision: the parameters of ", module.kind(), " '",
                       module.full_name(), "' are sharded; say the precision to the sharding instead");
  const ParameterList parameters = module.parameters();
  for (const NamedParameter& parameter : parameters)
    require<DTypeError>(!parameter.master.defined() &&
                            (parameter.variable.dtype() == f32 || !is_floating(parameter.variable.dtype())),
                        "use_mixed_precision: expected f32, got ", parameter.variable, " for '",
                        parameter.name, "'",
                        parameter.master.defined() ? ", which has a master already" : "");
  for (const NamedParameter& parameter : parameters) {
    if (!is_floating(parameter.variable.dtype())) continue;
    const Tensor master = parameter.variable.value();
    master.storage()->retag(MemoryCategory::optimizer_state);
    const CategoryScope category(MemoryCategory::parameter);
    parameter.variable.set_value(ops::cast(master, compute));
    parameter.variable.set_grad_dtype(f32);
    set_master(module, parameter.variable, master);
  }
  for (const NamedParameter& buffer : module.buffers())
    if (buffer.variable.dtype() == f32)
      buffer.variable.set_value(ops::cast(buffer.variable.value(), compute));
}

void round_masters(Module& module) {
  for (const NamedParameter& parameter : module.parameters())
    if (parameter.master.defined()) ops::cast_out(parameter.master, parameter.variable.value());
}

}  // namespace tessera::nn
