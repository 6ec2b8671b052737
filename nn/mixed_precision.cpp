#include "nn/mixed_precision.h"

#include <unordered_map>

#include "tensor/ops/elementwise/cast.h"

namespace tessera::nn {
namespace {

/// Finds masters that were written without their rounded parameters. An optimizer's step raises both versions
/// by one, so their difference stays; a write into the master only changes it.
class MasterVersions {
 public:
  /// The parameters have just been rounded.
  explicit MasterVersions(const ParameterList& parameters) {
    for (const NamedParameter& parameter : parameters)
      if (parameter.master.defined())
        differences_[parameter.variable.impl().get()] = difference(parameter.master, parameter.variable);
  }
  /// Rounds the masters that were written since. Without such a master it changes nothing: several threads
  /// may run one model.
  void round_changed(const Module& module) {
    for (const Module::Entry& entry : module.entries())
      if (entry.master.defined() && !entry.master.is_meta()) round_changed(entry);
    for (const Module::Child& child : module.child_entries()) round_changed(*child.module);
  }

 private:
  void round_changed(const Module::Entry& entry) {
    const auto found = differences_.find(entry.variable.impl().get());
    if (found == differences_.end() || found->second == difference(entry.master, entry.variable)) return;
    ops::cast_out(entry.master, entry.variable.value());
    found->second = difference(entry.master, entry.variable);
  }
  static uint64_t difference(const Tensor& master, const Variable& rounded) {
    return master.version() - rounded.value().version();
  }

  std::unordered_map<const VariableImpl*, uint64_t> differences_;
};

}  // namespace

void set_master(Module& module, const Variable& variable, const Tensor& master) {
  module.for_each([&](Module& submodule) {
    for (Module::Entry& entry : submodule.entries())
      if (entry.variable.is_same(variable)) entry.master = master;
  });
}

void use_mixed_precision(Module& module, DType compute) {
  require<DTypeError>(compute == bf16 || compute == f16, "use_mixed_precision: expected bf16 or f16, got ",
                      compute);
  require<ConfigError>(!module.store(), "use_mixed_precision: the parameters of ", module.kind(), " '",
                       module.full_name(), "' are sharded; set the precision in dist::ShardOptions instead");
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
    master.storage()->set_category(MemoryCategory::optimizer_state);
    const CategoryScope category(MemoryCategory::parameter);
    parameter.variable.set_value(ops::cast(master, compute));
    parameter.variable.set_grad_dtype(f32);
    set_master(module, parameter.variable, master);
  }
  module.register_forward_pre_hook(
      [versions = std::make_shared<MasterVersions>(module.parameters())](
          Module& called, const CallVariables&) { versions->round_changed(called); });
}

void round_masters(Module& module) {
  for (const NamedParameter& parameter : module.parameters())
    if (parameter.master.defined()) ops::cast_out(parameter.master, parameter.variable.value());
}

}  // namespace tessera::nn
