#pragma once  // not in tessera.h

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/sequence/layer_spec.h"

namespace tessera::dist {

/// What is balanced when layers are cut into stages.
enum class PartitionKind {
  uniform,     ///< the number of layers
  parameters,  ///< trained parameters, tied ones in each of their layers
  type,        ///< layers of a kind that a pattern matches
  profile,     ///< FLOPs of the forward, from a run on meta
  memory,      ///< bytes: of parameters with their training state, and of live micro-batches' activations
  boundaries,  ///< nothing: the first layers of the stages are given
};

/// How layers are cut into stages.
struct PartitionMethod {
  PartitionKind kind = PartitionKind::parameters;  ///< what is balanced
  /// Of `type`: a regular expression (ECMAScript, upper and lower case alike) that is searched in the kinds
  /// of the layers.
  std::string pattern = {};
  /// Of `boundaries`: the first layer of each stage, and the number of layers.
  std::vector<int64_t> boundaries = {};
};

/// Reads "uniform", "parameters", "type:REGEX", "profile", "memory", or boundaries such as "0,4,7,10,16".
/// Throws ConfigError that lists the forms.
PartitionMethod parse_partition_method(std::string_view text);

/// What a layer costs.
struct LayerCost {
  int64_t parameters = 0;        ///< trained ones
  int64_t parameter_bytes = 0;   ///< of all parameters and buffers
  int64_t flops = 0;             ///< of the forward of a micro-batch; 0 without a run
  int64_t activation_bytes = 0;  ///< that the forward of a micro-batch keeps for backward; 0 without a run
};

/// The parameters of each layer, those of the loss in the last one.
std::vector<LayerCost> layer_costs(const nn::LayeredModel& model);
/// The same with the FLOPs and activation bytes of a forward on meta. The model is on meta. `inputs` are
/// those of a micro-batch, and `targets` those of the loss, both on meta.
std::vector<LayerCost> layer_costs(const nn::LayeredModel& model, const nn::LayerValues& inputs,
                                   const std::vector<Tensor>& targets);

/// The costs of a stage: the sum of its layers' `fixed`, and `live` of the stage times the sum of their
/// `scaled`.
struct PartitionCosts {
  std::vector<double> fixed;        ///< by layer
  std::vector<double> scaled = {};  ///< by layer; none: 0
  std::vector<double> live = {};    ///< by stage, such as the largest number of live micro-batches; none: 1
};

/// Cuts layers into `stages` groups of successive ones, at least one in each, with the smallest largest cost
/// (exact, by dynamic programming), and of those cuts one with the smallest sum of squares. Returns the first
/// layer of each stage, and the number of layers. Throws ConfigError for fewer layers than stages, and for
/// costs that are negative or not finite.
std::vector<int64_t> balanced_boundaries(const PartitionCosts& costs, int stages);

/// Cuts layers by a method. `live` are the largest numbers of live micro-batches by stage, for `memory`;
/// none:
/// 1. Throws ConfigError as `balanced_boundaries`, for `profile` without FLOPs, for a pattern that matches no
/// layer, and for boundaries that do not ascend from 0 to the number of layers.
std::vector<int64_t> partition_layers(std::span<const nn::LayerSpec> layers, std::span<const LayerCost> costs,
                                      const PartitionMethod& method, int stages,
                                      const std::vector<int>& live = {});

/// A line for each stage as DeepSpeed prints it, where `ranks[s]` is the first rank of stage s:
/// "RANK=0 STAGE=0 LAYERS=4 [0, 4) STAGE_PARAMS=21256704 (21.257M)".
std::string partition_text(std::span<const LayerCost> costs, std::span<const int64_t> boundaries,
                           std::span<const int> ranks);

}  // namespace tessera::dist
