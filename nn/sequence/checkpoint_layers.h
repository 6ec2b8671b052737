#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/sequence/layer_spec.h"

/// Activation checkpointing of a list of layers (Chen et al., "Training Deep Nets with Sublinear Memory
/// Cost", 2016): of a checkpointed layer only the inputs are kept, and what `keep` names; backward runs it
/// again. Values and gradients have the same bits. A model gives its list by `to_layers`; one without such a
/// list has no layers that could be chosen here (nn::ListsLayers).
namespace tessera::nn {

/// What is kept of a layer's activations.
struct KeptOfLayer {
  bool is_checkpointed = false;  ///< whether backward runs the layer again; else all is kept
  /// Of a checkpointed layer: operations with results that are kept (CheckpointOptions::keep).
  std::vector<std::string> keep = {};
  /// Equal in all fields.
  friend bool operator==(const KeptOfLayer&, const KeptOfLayer&) = default;
};

/// Layers 0, k, 2k, ... are checkpointed; none for k = 0. Throws ConfigError for a negative k.
std::vector<KeptOfLayer> every_layer(size_t layers, int64_t k, const std::vector<std::string>& keep = {});
/// Layers for which `predicate` holds: of a kind, or of some names.
std::vector<KeptOfLayer> layers_where(const std::vector<LayerSpec>& layers,
                                      const std::function<bool(const LayerSpec&)>& predicate,
                                      const std::vector<std::string>& keep = {});

/// The layers, where those that `kept` says are checkpointed. Throws ConfigError unless there is an entry for
/// each.
std::vector<LayerSpec> checkpoint_layers(std::vector<LayerSpec> layers, const std::vector<KeptOfLayer>& kept);

/// Each `interval` successive layers as one checkpointed layer, so that only its first input is kept; the
/// layers themselves for an interval of 0. Throws ConfigError for a negative interval.
std::vector<LayerSpec> checkpoint_segments(std::vector<LayerSpec> layers, int64_t interval,
                                           const std::vector<std::string>& keep = {});

}  // namespace tessera::nn
