#include "nn/sequence/layer_spec.h"

#include "nn/sequence/hold.h"

namespace tessera::nn {
namespace {

void add_variables(ParameterSet& found, std::span<const Module* const> modules) {
  for (const Module* module : modules) found.merge(variables_below(*module));
}

}  // namespace

LayerValues run_layers(std::span<const LayerSpec> layers, LayerValues values) {
  for (const LayerSpec& layer : layers) values = layer.run(values);
  return values;
}

ParameterSet variables_of(std::span<const LayerSpec> layers) {
  ParameterSet found;
  for (const LayerSpec& layer : layers) add_variables(found, layer.modules);
  return found;
}

ParameterSet variables_of(std::span<const Module* const> modules) {
  ParameterSet found;
  add_variables(found, modules);
  return found;
}

void require_all_layers(const Module& model, const LayeredModel& layered) {
  ParameterSet listed = variables_of(layered.layers);
  listed.merge(variables_of(layered.loss.modules));
  ParameterSet own;
  model.for_each_entry([&](const std::string& name, const Module::Entry& entry) {
    require<ConfigError>(listed.contains(entry.variable.impl().get()), "layers of ", model.kind(), ": '",
                         name, "' is in none of the ", layered.layers.size(), " layers, nor in the loss");
    own.insert(entry.variable.impl().get());
  });
  for (const LayerSpec& layer : layered.layers)
    for (const VariableImpl* variable : variables_of(layer.modules))
      require<ConfigError>(own.contains(variable), "layers of ", model.kind(), ": layer '", layer.name,
                           "' reads parameters of another model");
  for (const VariableImpl* variable : variables_of(layered.loss.modules))
    require<ConfigError>(own.contains(variable), "layers of ", model.kind(),
                         ": the loss reads parameters of another model");
}

}  // namespace tessera::nn
