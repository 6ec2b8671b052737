#pragma once  // not in tessera.h

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "dist/pipeline/partition/partition.h"
#include "nn/layers/containers.h"
#include "nn/sequence/checkpoint_layers.h"
#include "nn/sequence/layer_spec.h"

namespace tessera::dist {

/// A pass of a micro-batch through a layer.
struct LayerPass {
  int64_t flops = 0;   ///< of matrix products and attention
  int64_t bytes = 0;   ///< of memory traffic: parameters once, results written once and read once
  double seconds = 0;  ///< as `ModelProfile::measure` found it
};

/// A parameter of a layer.
struct ParameterProfile {
  const VariableImpl* identity = nullptr;  ///< equal for tied ones
  int64_t elements = 0;                    ///< of the whole parameter
  DType dtype = f32;                       ///< as declared
  bool is_trained = true;                  ///< whether it has a gradient
};

/// What a layer costs for a micro-batch. The last one's costs are with the loss.
struct LayerProfile {
  std::string name = {};                          ///< as in its LayerSpec
  std::string kind = {};                          ///< as in its LayerSpec
  std::vector<ParameterProfile> parameters = {};  ///< each once
  LayerPass forward = {};                         ///< F
  LayerPass backward = {};                        ///< B: the whole
  LayerPass backward_input = {};                  ///< I: the gradients of its inputs
  LayerPass backward_weight = {};                 ///< W: those of its parameters
};

/// Bytes of activations of a stage of layers, for one micro-batch: values between layers and those that
/// forward keeps for backward, with the values received and without the inputs of the model.
struct StageProfile {
  int64_t received = 0;          ///< values that it receives for a forward; 0 of the first stage
  int64_t received_back = 0;     ///< gradients that it receives for a backward; 0 of the last stage
  int64_t kept = 0;              ///< from the end of its forward to the beginning of its backward
  int64_t kept_after_input = 0;  ///< from I to W
  int64_t forward_peak = 0;      ///< the most while F runs, with its own results
  /// The most while B, I or W runs, with what the forward kept and the gradients received.
  /// @{
  int64_t backward_peak = 0, backward_input_peak = 0, backward_weight_peak = 0;
  /// @}
  /// The same for a first B or W, which also makes the gradients of the stage's parameters.
  /// @{
  int64_t first_backward_peak = 0, first_backward_weight_peak = 0;
  /// @}
  int64_t forward_flops = 0;  ///< of F
  /// Of B, and of its halves, with the recomputation of checkpointed layers.
  /// @{
  int64_t backward_flops = 0, backward_input_flops = 0, backward_weight_flops = 0;
  /// @}
};

/// What a model that is a list of layers costs for a micro-batch: by running its layers on meta, where
/// nothing is computed. Under autocast as there.
class ModelProfile {
 public:
  /// `inputs` are those of a micro-batch and `targets` those of its loss; all of them and the model are on
  /// meta. Throws DeviceError for a layer with values.
  ModelProfile(nn::LayeredModel model, nn::LayerValues inputs, std::vector<Tensor> targets);

  /// By layer.
  const std::vector<LayerProfile>& layers() const { return layers_; }
  /// What layers cost, for their partition.
  const std::vector<LayerCost>& costs() const { return costs_; }
  /// The values that pass from layer `first - 1` to the next, or the model's inputs: shapes on meta.
  const nn::LayerValues& values_before(int64_t first) const { return values_[static_cast<size_t>(first)]; }
  /// Runs layers [first, end) on meta as a stage with activation checkpointing. Once for each of its
  /// arguments; the loss belongs to the last layer. `kept` is what is kept of each layer of the model; none:
  /// of each all.
  const StageProfile& stage(int64_t first, int64_t end, const nn::ActivationCheckpointing& checkpointing,
                            const std::vector<nn::KeptOfLayer>& kept = {});
  /// The model that it was made from.
  const nn::LayeredModel& model() const { return model_; }

  /// Runs a micro-batch of a model with values `times` times, layer by layer on this thread's threads, and
  /// sets each layer's seconds to their median. Of layers that are equal in kind, parameters and FLOPs the
  /// first one is run for all. Gradients of the parameters are removed. Throws ConfigError for another number
  /// of layers, or `times` below 1.
  void measure(const nn::LayeredModel& model, const nn::LayerValues& inputs,
               const std::vector<Tensor>& targets, int times = 5);
  /// Sets seconds, such as means over ranks: F, B, I and W of each layer, in this order.
  /// @{
  void set_seconds(const std::vector<double>& seconds);
  std::vector<double> seconds() const;
  /// @}
  /// Whether layers have seconds. Else their time follows from FLOPs, bytes and the rates of a machine.
  bool has_seconds() const { return has_seconds_; }

 private:
  using StageKey = std::tuple<int64_t, int64_t, int64_t, std::vector<std::string>, std::string>;
  void profile_layers();
  /// The layers of a stage, checkpointed.
  struct StageLayers {
    int64_t first, end;
    std::vector<nn::LayerSpec> layers;
  };
  StageProfile run_stage(const StageLayers& stage) const;
  void run_backward(const StageLayers& of, StageProfile& profile) const;
  void run_backward_in_halves(const StageLayers& of, StageProfile& profile) const;
  nn::LayerValues stage_inputs(int64_t first) const;
  std::function<nn::LayerValues(const nn::LayerValues&)> finish_of(int64_t end) const;

  nn::LayeredModel model_;
  std::vector<Tensor> targets_;
  std::vector<nn::LayerValues> values_;  // by boundary between layers
  std::vector<LayerProfile> layers_;
  std::vector<LayerCost> costs_;
  std::map<StageKey, StageProfile> stages_;
  bool has_seconds_ = false;
};

}  // namespace tessera::dist
