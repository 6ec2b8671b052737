#include "nn/quantize_weights.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "nn/layers/linear.h"
#include "nn/layers/quantized_product.h"
#include "nn/parametrize/parametrization.h"

namespace tessera::nn {
namespace {

/// How many entries of the whole model hold a Variable.
using Holders = std::unordered_map<const VariableImpl*, int>;

Holders holders_of(const Module& module) {
  const Module* root = &module;
  while (root->parent()) root = root->parent();
  Holders holders;
  root->for_each_entry(
      [&](const std::string&, const Module::Entry& entry) { ++holders[entry.variable.impl().get()]; });
  return holders;
}

ops::QuantizedWeight quantized(const Linear& layer, const Holders& holders) {
  const std::string name = text("quantize_weights: nn::Linear '", layer.full_name(), "'");
  require<ConfigError>(!layer.store(), name, " is sharded; call it before dist::shard");
  require<ConfigError>(!is_parametrized(layer, "weight"), name,
                       ": its weight is parametrised; call nn::remove_parametrizations first");
  const Module::Entry& entry = layer.entries().front();
  require<ConfigError>(entry.held, name, ": this rank does not hold its weight");
  require<ConfigError>(!entry.master.defined(), name,
                       " is in mixed precision; end it by module.to(dtype) first");
  require<ConfigError>(holders.at(layer.weight.impl().get()) == 1, name,
                       ": its weight is tied to another parameter");
  return quantize_weight(layer, layer.weight);
}

}  // namespace

void quantize_weights(Module& module) {
  const Holders holders = holders_of(module);
  std::vector<std::pair<Linear*, ops::QuantizedWeight>> all;
  module.for_each([&](Module& submodule) {
    auto* const layer = submodule.as<Linear>();
    if (layer && !layer->quantized_weight()) all.emplace_back(layer, quantized(*layer, holders));
  });
  for (auto& [layer, weight] : all) layer->set_quantized_weight(std::move(weight));
}

}  // namespace tessera::nn
