#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/sequence/checkpoint_layers.h"

namespace tessera::nn {

/// A step of a model on meta: what its activations take, and what it computes.
struct StepCost {
  int64_t peak_bytes = 0;  ///< the most bytes beside the inputs at once: activations, and gradients of these
  int64_t flops = 0;       ///< of forward, recomputation and backward
  int64_t offloaded_bytes = 0;  ///< that are elsewhere from forward to backward
};

/// What a plan may choose for a layer, besides keeping all and keeping its inputs alone.
struct CheckpointChoices {
  /// Operations with results that are kept beside the inputs (CheckpointOptions::keep): a choice each.
  std::vector<std::vector<std::string>> keeps = {};
  bool offload = false;  ///< whether inputs may be elsewhere until backward (KeptOfLayer::offload)
  /// Whether a layer may be run again, such as those of a kind; none: all may.
  std::function<bool(const LayerSpec&)> may = {};
  /// FLOPs that take as long as a byte on its way there and back; the plan minimizes their sum with those of
  /// recomputation.
  double flops_per_byte = 50;
};

/// What is kept of each layer, chosen for a number of bytes.
struct CheckpointPlan {
  std::vector<KeptOfLayer> kept;  ///< by layer
  StepCost cost;                  ///< of a step with it, from a run on meta
  StepCost without;               ///< of a step in which all is kept
};

/// Runs forward and backward of a micro-batch on meta. The model, `inputs` and `targets` are on meta; the
/// gradients of parameters are removed and not counted. With `kept`, layers are checkpointed so. Throws
/// DeviceError for a model with values, ConfigError as `checkpoint_layers`.
StepCost step_cost(const LayeredModel& model, const LayerValues& inputs, const std::vector<Tensor>& targets,
                   const std::vector<KeptOfLayer>& kept = {});

/// Chooses what is kept of each layer, so that the peak of a step is at most `budget_bytes` and the FLOPs of
/// recomputation are the fewest: dynamic programming over the bytes and FLOPs of each choice on meta, in
/// steps of 1/2048 of the bytes, then a run on meta of the whole. Throws ConfigError that gives the smallest
/// peak that was found where the budget is below it.
CheckpointPlan plan_checkpointing(const LayeredModel& model, const LayerValues& inputs,
                                  const std::vector<Tensor>& targets, int64_t budget_bytes,
                                  const CheckpointChoices& choices = {});

/// What is kept of layers as text: a line for each range of equal ones.
std::string to_string(const std::vector<KeptOfLayer>& kept, const std::vector<LayerSpec>& layers);
/// The plan as text: a line for each range of equal layers, then bytes and FLOPs beside those without it.
std::string to_string(const CheckpointPlan& plan, const LayeredModel& model);

}  // namespace tessera::nn
