#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autograd/graph/saving_policy.h"
#include "nn/sequence/layer_spec.h"

/// Activation checkpointing of a list of layers (Chen et al., "Training Deep Nets with Sublinear Memory
/// Cost", 2016): of a checkpointed layer only the inputs are kept, and what `keep` names; backward runs it
/// again. Values and gradients have the same bits. A model gives its list by `to_layers`; of one without such
/// a list (nn::ListsLayers) modules are chosen instead (nn/checkpoint_modules.h).
namespace tessera::nn {

/// What is kept of a layer's activations.
struct KeptOfLayer {
  bool is_checkpointed = false;  ///< whether backward runs the layer again; else all is kept
  /// Of a checkpointed layer: operations with results that are kept (CheckpointOptions::keep).
  std::vector<std::string> keep = {};
  bool offload = false;  ///< of a checkpointed layer: whether its inputs are elsewhere until backward
  /// Equal in all fields.
  friend bool operator==(const KeptOfLayer&, const KeptOfLayer&) = default;
};

/// Layers 0, k, 2k, ... are checkpointed; none for k = 0. Throws ConfigError for a negative k.
std::vector<KeptOfLayer> every_layer(size_t layers, int64_t k, const std::vector<std::string>& keep = {});
/// Layers for which `predicate` holds: of a kind, or of some names.
std::vector<KeptOfLayer> layers_where(const std::vector<LayerSpec>& layers,
                                      const std::function<bool(const LayerSpec&)>& predicate,
                                      const std::vector<std::string>& keep = {});

/// The layers, where those that `kept` says are checkpointed, and `store` holds the inputs of those with
/// `offload` (HostStore, FileStore). Throws ConfigError unless there is an entry for each, and a `store`
/// where one has `offload`.
std::vector<LayerSpec> checkpoint_layers(std::vector<LayerSpec> layers, const std::vector<KeptOfLayer>& kept,
                                         const SavingPolicy& store = {});

/// Each `interval` successive layers as one checkpointed layer, so that only its first input is kept; the
/// layers themselves for an interval of 0. Throws ConfigError for a negative interval.
std::vector<LayerSpec> checkpoint_segments(std::vector<LayerSpec> layers, int64_t interval,
                                           const std::vector<std::string>& keep = {});

}  // namespace tessera::nn
