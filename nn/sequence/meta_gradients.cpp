#include "nn/sequence/meta_gradients.h"

#include "tensor/error.h"
#include "tensor/tensor.h"

namespace tessera::nn {

MetaGradients::MetaGradients(const LayeredModel& model) {
  ParameterSet seen;
  for (const LayerSpec& layer : model.layers) add(layer.modules, seen);
  add(model.loss.modules, seen);
  for (const Variable& parameter : parameters_)
    parameter.set_grad(Tensor::empty(parameter.shape(), parameter.grad_dtype(), meta()));
}

MetaGradients::~MetaGradients() {
  for (const Variable& parameter : parameters_) parameter.set_grad({});
}

void MetaGradients::add(const std::vector<const Module*>& modules, ParameterSet& seen) {
  for (const Module* module : modules)
    module->for_each_entry([&](const std::string& name, const Module::Entry& entry) {
      const Variable& variable = entry.variable;
      if (entry.is_buffer || !seen.insert(variable.impl().get()).second) return;
      require<DeviceError>(variable.value().is_meta(), "a run on meta: parameter '", name, "' of ",
                           module->kind(), " '", module->full_name(),
                           "' has values; expected a model before nn::materialize");
      if (variable.requires_grad()) parameters_.push_back(variable);
    });
}

}  // namespace tessera::nn
