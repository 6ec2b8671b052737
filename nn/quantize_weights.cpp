#include "nn/quantize_weights.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "nn/layers/embedding.h"
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
  require<ConfigError>(!layer.store(), name, " is sharded; expected a model on one rank");
  require_not_parametrized(layer);
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

bool has_quantized_weight(const Module& layer) {
  if (const auto* const linear = layer.as<Linear>()) return linear->quantized_weight() != nullptr;
  const auto* const embedding = layer.as<Embedding>();
  return embedding && embedding->quantized_logits_weight();
}

}  // namespace tessera::nn
