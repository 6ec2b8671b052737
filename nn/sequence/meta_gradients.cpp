#include "nn/sequence/meta_gradients.h"

#include "tensor/tensor.h"

namespace tessera::nn {

MetaGradients::MetaGradients(const LayeredModel& model) {
  ParameterSet seen;
  for (const LayerSpec& layer : model.layers) add(layer.modules, seen);
  add(model.loss.modules, seen);
}

MetaGradients::~MetaGradients() {
  for (const Variable& parameter : parameters_) parameter.set_grad({});
}

void MetaGradients::add(const std::vector<const Module*>& modules, ParameterSet& seen) {
  for (const Module* module : modules)
    module->for_each_entry([&](const std::string&, const Module::Entry& entry) {
      const Variable& variable = entry.variable;
      if (entry.is_buffer || !variable.requires_grad() || !seen.insert(variable.impl().get()).second) return;
      parameters_.push_back(variable);
      variable.set_grad(Tensor::empty(variable.shape(), variable.grad_dtype(), meta()));
    });
}

}  // namespace tessera::nn
