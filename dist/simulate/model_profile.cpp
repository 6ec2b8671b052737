#include "dist/simulate/model_profile.h"

#include <algorithm>
#include <utility>

#include "dist/pipeline/run/stage.h"
#include "nn/sequence/checkpoint_layers.h"
#include "nn/sequence/meta_count.h"
#include "nn/sequence/meta_gradients.h"
#include "tensor/error.h"

namespace tessera::dist {
namespace {

std::vector<ParameterProfile> parameters_of(const std::vector<const nn::Module*>& modules,
                                            nn::ParameterSet& seen) {
  std::vector<ParameterProfile> parameters;
  for (const nn::Module* module : modules)
    module->for_each_entry([&](const std::string&, const nn::Module::Entry& entry) {
      const Variable& variable = entry.variable;
      if (entry.is_buffer || !seen.insert(variable.impl().get()).second) return;
      parameters.push_back(
          {variable.impl().get(), variable.numel(), variable.dtype(), variable.requires_grad()});
    });
  return parameters;
}

int64_t bytes_of(const nn::LayerValues& values, bool with_gradient_alone = false) {
  int64_t bytes = 0;
  for (const Variable& value : values)
    if (value.defined() && (!with_gradient_alone || value.requires_grad()))
      bytes += value.numel() * size_of(value.dtype());
  return bytes;
}

int64_t bytes_of(const std::vector<ParameterProfile>& parameters) {
  int64_t bytes = 0;
  for (const ParameterProfile& parameter : parameters) bytes += parameter.elements * size_of(parameter.dtype);
  return bytes;
}

/// Values of these shapes as a stage receives them: leaves.
nn::LayerValues received(const nn::LayerValues& like) {
  nn::LayerValues values;
  for (const Variable& value : like)
    values.push_back(
        value.defined() ? Variable(Tensor::empty(value.shape(), value.dtype(), meta()), value.requires_grad())
                        : Variable());
  return values;
}

/// The same values as leaves of a graph of their own.
nn::LayerValues detached(const nn::LayerValues& values) {
  nn::LayerValues leaves;
  for (const Variable& value : values)
    leaves.push_back(value.defined() ? Variable(value.value(), value.requires_grad()) : Variable());
  return leaves;
}

nn::LayerValues gradients_like(const nn::LayerValues& values) {
  nn::LayerValues gradients;
  for (const Variable& value : values)
    gradients.push_back(value.defined() && value.requires_grad()
                            ? Variable(Tensor::empty(value.shape(), value.dtype(), value.value().device()))
                            : Variable());
  return gradients;
}

void require_meta(const nn::LayerValues& values, const std::string& layer) {
  for (const Variable& value : values)
    require<DeviceError>(!value.defined() || value.value().is_meta(), "profile of a model: layer '", layer,
                         "' has values; expected a model before nn::materialize");
}

/// Equal for equal choices.
std::string key_of(const std::vector<nn::KeptOfLayer>& kept) {
  std::string key;
  for (const nn::KeptOfLayer& layer : kept) {
    key += !layer.is_checkpointed ? 'a' : layer.offload ? 'o' : 'i';
    for (const std::string& name : layer.keep) key += name + ",";
  }
  return key;
}

}  // namespace

ModelProfile::ModelProfile(nn::LayeredModel model, nn::LayerValues inputs, std::vector<Tensor> targets)
    : model_(std::move(model)), targets_(std::move(targets)) {
  require<ConfigError>(!model_.layers.empty() && model_.loss.run,
                       "profile of a model: expected layers and a loss, got ", model_.layers.size(),
                       " layers", model_.loss.run ? "" : " and no loss");
  values_.push_back(std::move(inputs));
  profile_layers();
  costs_ = layer_costs(model_, values_.front(), targets_);
}

std::function<nn::LayerValues(const nn::LayerValues&)> ModelProfile::finish_of(int64_t end) const {
  if (end < std::ssize(model_.layers)) return {};
  return [this](const nn::LayerValues& values) { return nn::LayerValues{model_.loss.run(values, targets_)}; };
}

void ModelProfile::profile_layers() {
  const nn::MetaGradients gradients(model_);
  for (int64_t i = 0; i < std::ssize(model_.layers); ++i) {
    const nn::LayerSpec& spec = model_.layers[static_cast<size_t>(i)];
    nn::ParameterSet seen;
    LayerProfile layer{.name = spec.name, .kind = spec.kind, .parameters = parameters_of(spec.modules, seen)};
    if (i + 1 == std::ssize(model_.layers))
      for (const ParameterProfile& parameter : parameters_of(model_.loss.modules, seen))
        layer.parameters.push_back(parameter);
    nn::MetaCount counting;
    PipelineStage stage(static_cast<int>(i), {&spec, 1});
    const nn::LayerValues outputs =
        stage.forward(0, detached(values_.back()), random_context(), finish_of(i + 1));
    require_meta(outputs, spec.name);
    layer.forward.flops = counting.take_flops();
    // A result that backward needs is kept, others are at least the layer's output.
    const int64_t written = std::max(counting.bytes(), bytes_of(outputs));
    layer.forward.bytes = bytes_of(layer.parameters) + 2 * written;
    stage.backward_input(0, gradients_like(outputs));
    layer.backward_input.flops = counting.take_flops();
    stage.backward_weight(0);
    layer.backward_weight.flops = counting.take_flops();
    layer.backward.flops = layer.backward_input.flops + layer.backward_weight.flops;
    // Backward reads what was kept, and writes and reads a gradient of each of these values.
    layer.backward_input.bytes = bytes_of(layer.parameters) + 3 * written;
    layer.backward_weight.bytes = 2 * bytes_of(layer.parameters) + 2 * written;
    layer.backward.bytes = layer.backward_input.bytes + layer.backward_weight.bytes;
    layers_.push_back(std::move(layer));
    values_.push_back(received(outputs));
  }
}

const StageProfile& ModelProfile::stage(int64_t first, int64_t end,
                                        const nn::ActivationCheckpointing& checkpointing,
                                        const std::vector<nn::KeptOfLayer>& kept) {
  require<ConfigError>(0 <= first && first < end && end <= std::ssize(layers_),
                       "profile of a stage: expected layers from 0 to ", layers_.size(), ", got [", first,
                       ", ", end, ")");
  require<ConfigError>(kept.empty() || kept.size() == layers_.size(),
                       "profile of a stage: expected what is kept of each of ", layers_.size(),
                       " layers, got ", kept.size());
  std::vector<nn::KeptOfLayer> own;
  if (!kept.empty()) own.assign(kept.begin() + first, kept.begin() + end);
  const StageKey key{first, end, checkpointing.interval, checkpointing.keep, key_of(own)};
  const auto known = stages_.find(key);
  if (known != stages_.end()) return known->second;
  StageLayers stage{first, end, {model_.layers.begin() + first, model_.layers.begin() + end}};
  if (!own.empty()) stage.layers = nn::checkpoint_layers(std::move(stage.layers), own);
  stage.layers = nn::checkpoint_segments(std::move(stage.layers), checkpointing.interval, checkpointing.keep);
  return stages_.emplace(key, run_stage(stage)).first->second;
}

StageProfile ModelProfile::run_stage(const StageLayers& stage) const {
  StageProfile profile;
  const nn::LayerValues& before = values_before(stage.first);
  profile.received = stage.first > 0 ? bytes_of(before) : 0;
  profile.received_back =
      stage.end == std::ssize(model_.layers) ? 0 : bytes_of(values_before(stage.end), true);
  {
    const nn::MetaGradients gradients(model_);
    run_backward(stage, profile);
    run_backward_in_halves(stage, profile);
  }
  // Without gradients before: the first backward makes them.
  StageProfile made;
  const auto remove_gradients = [this] { const nn::MetaGradients removed_at_its_end(model_); };
  run_backward(stage, made);
  remove_gradients();
  run_backward_in_halves(stage, made);
  remove_gradients();
  profile.first_backward_peak = made.backward_peak;
  profile.first_backward_weight_peak = made.backward_weight_peak;
  return profile;
}

/// The values of a forward of layers from `first` on as their stage gets them.
nn::LayerValues ModelProfile::stage_inputs(int64_t first) const {
  return first > 0 ? received(values_before(first)) : detached(values_before(first));
}

void ModelProfile::run_backward(const StageLayers& of, StageProfile& profile) const {
  nn::MetaCount counting;
  PipelineStage stage(0, of.layers);
  const nn::LayerValues outputs =
      stage.forward(0, stage_inputs(of.first), random_context(), finish_of(of.end));
  profile.forward_flops = counting.take_flops();
  profile.forward_peak = counting.take_peak();
  nn::LayerValues back = gradients_like(outputs);
  profile.kept = counting.bytes() - bytes_of(back);
  counting.take_peak();
  stage.backward(0, std::move(back));
  profile.backward_flops = counting.take_flops();
  profile.backward_peak = counting.take_peak();
}

void ModelProfile::run_backward_in_halves(const StageLayers& of, StageProfile& profile) const {
  nn::MetaCount counting;
  PipelineStage stage(0, of.layers);
  {
    const nn::LayerValues outputs =
        stage.forward(0, stage_inputs(of.first), random_context(), finish_of(of.end));
    counting.take_flops();
    nn::LayerValues back = gradients_like(outputs);
    counting.take_peak();
    stage.backward_input(0, std::move(back));
  }
  profile.backward_input_flops = counting.take_flops();
  profile.backward_input_peak = counting.take_peak();
  profile.kept_after_input = counting.bytes();
  stage.backward_weight(0);
  profile.backward_weight_flops = counting.take_flops();
  profile.backward_weight_peak = counting.take_peak();
}

}  // namespace tessera::dist
