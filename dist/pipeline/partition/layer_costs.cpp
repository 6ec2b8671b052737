// What layers cost: by counting their parameters, and by running them on meta.

#include "autograd/grad_mode.h"
#include "dist/pipeline/partition/partition.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/profile/cost.h"

namespace tessera::dist {
namespace {

void add_parameters(LayerCost& cost, const std::vector<const nn::Module*>& modules, nn::ParameterSet& seen) {
  for (const nn::Module* module : modules)
    module->for_each_entry([&](const std::string&, const nn::Module::Entry& entry) {
      const Variable& variable = entry.variable;
      if (!seen.insert(variable.impl().get()).second) return;
      cost.parameter_bytes += variable.numel() * size_of(variable.dtype());
      if (!entry.is_buffer && variable.requires_grad()) cost.parameters += variable.numel();
    });
}

}  // namespace

std::vector<LayerCost> layer_costs(const nn::LayeredModel& model) {
  std::vector<LayerCost> costs;
  nn::ParameterSet seen;
  for (const nn::LayerSpec& layer : model.layers) {
    seen.clear();
    add_parameters(costs.emplace_back(), layer.modules, seen);
  }
  if (!costs.empty()) add_parameters(costs.back(), model.loss.modules, seen);
  return costs;
}

std::vector<LayerCost> layer_costs(const nn::LayeredModel& model, const nn::LayerValues& inputs,
                                   const std::vector<Tensor>& targets) {
  std::vector<LayerCost> costs = layer_costs(model);
  const auto memory = make_intrusive<MemoryAccount>();
  MetaAccountScope account(memory);
  Cost cost;
  CostScope counting(cost);
  GradMode record(true);
  std::vector<nn::LayerValues> kept;  // graphs live until all layers were counted
  nn::LayerValues values = inputs;
  const auto count = [&](LayerCost& layer, const auto& run) {
    const int64_t flops = cost.flops, bytes = memory->total().current;
    run();
    layer.flops += cost.flops - flops;
    layer.activation_bytes += memory->total().current - bytes;
  };
  for (size_t i = 0; i < model.layers.size(); ++i)
    count(costs[i], [&] {
      values = model.layers[i].run(values);
      for (const Variable& value : values)
        require<DeviceError>(value.value().is_meta(), "layer costs: layer '", model.layers[i].name,
                             "' has values; count its costs before nn::materialize");
      kept.push_back(values);
    });
  if (model.loss.run && !costs.empty())
    count(costs.back(), [&] { kept.push_back({model.loss.run(values, targets)}); });
  return costs;
}

}  // namespace tessera::dist
