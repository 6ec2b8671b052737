#include "nn/sequence/checkpoint_layers.h"

#include <algorithm>
#include <optional>

#include "autograd/recompute/checkpoint.h"
#include "tensor/error.h"

namespace tessera::nn {
namespace {

/// The layer that runs `layer` as a segment which backward runs again, with its inputs in `store` if any.
LayerSpec checkpointed(LayerSpec layer, std::vector<std::string> keep, SavingPolicy store = {}) {
  const Segment segment = [run = std::move(layer.run)](std::span<const Variable> inputs) {
    return run(LayerValues(inputs.begin(), inputs.end()));
  };
  layer.run = [name = layer.name, segment, options = CheckpointOptions{std::move(keep)},
               store = std::move(store)](const LayerValues& inputs) {
    std::optional<CheckpointInputsScope> scope;
    if (store) scope.emplace(store);
    return checkpoint_segment(name, segment, inputs, options);
  };
  return layer;
}

void require_count(int64_t count, const char* what) {
  require<ConfigError>(count >= 0, "activation checkpointing: expected ", what, " of at least 0, got ",
                       count);
}

}  // namespace

std::vector<KeptOfLayer> every_layer(size_t layers, int64_t k, const std::vector<std::string>& keep) {
  require_count(k, "a distance");
  std::vector<KeptOfLayer> kept(layers);
  for (size_t i = 0; k > 0 && i < layers; i += static_cast<size_t>(k)) kept[i] = {true, keep};
  return kept;
}

std::vector<KeptOfLayer> layers_where(const std::vector<LayerSpec>& layers,
                                      const std::function<bool(const LayerSpec&)>& predicate,
                                      const std::vector<std::string>& keep) {
  std::vector<KeptOfLayer> kept;
  for (const LayerSpec& layer : layers)
    kept.push_back(predicate(layer) ? KeptOfLayer{true, keep} : KeptOfLayer{});
  return kept;
}

std::vector<LayerSpec> checkpoint_layers(std::vector<LayerSpec> layers, const std::vector<KeptOfLayer>& kept,
                                         const SavingPolicy& store) {
  require<ConfigError>(kept.size() == layers.size(), "checkpoint_layers: expected an entry for each of ",
                       layers.size(), " layers, got ", kept.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!kept[i].is_checkpointed) continue;
    require<ConfigError>(!kept[i].offload || store, "checkpoint_layers: expected a store for the inputs of '",
                         layers[i].name, "', which has offload, got none");
    layers[i] = checkpointed(std::move(layers[i]), kept[i].keep, kept[i].offload ? store : SavingPolicy());
  }
  return layers;
}

std::vector<LayerSpec> checkpoint_segments(std::vector<LayerSpec> layers, int64_t interval,
                                           const std::vector<std::string>& keep) {
  require_count(interval, "an interval");
  if (interval == 0) return layers;
  std::vector<LayerSpec> segments;
  for (size_t first = 0; first < layers.size(); first += static_cast<size_t>(interval)) {
    const size_t end = std::min(layers.size(), first + static_cast<size_t>(interval));
    LayerSpec segment{.name = layers[first].name, .kind = "segment"};
    std::vector<LayerSpec> parts(std::make_move_iterator(layers.begin() + static_cast<std::ptrdiff_t>(first)),
                                 std::make_move_iterator(layers.begin() + static_cast<std::ptrdiff_t>(end)));
    for (const LayerSpec& part : parts)
      segment.modules.insert(segment.modules.end(), part.modules.begin(), part.modules.end());
    segment.run = [parts = std::move(parts)](const LayerValues& inputs) { return run_layers(parts, inputs); };
    segments.push_back(checkpointed(std::move(segment), keep));
  }
  return segments;
}

}  // namespace tessera::nn
