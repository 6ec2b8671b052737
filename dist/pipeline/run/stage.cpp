#include "dist/pipeline/run/stage.h"

#include <algorithm>

#include "autograd/functions/elementwise/cast.h"
#include "autograd/grad_mode.h"
#include "autograd/gradients.h"
#include "tensor/error.h"
#include "tensor/memory/storage_owner.h"

namespace tessera::dist {
namespace {

/// Copies parameters among the results of a stage, and views of them. Sharding frees their values before they
/// are sent, and counts the leaves below the roots of a backward.
void copy_parameters(nn::LayerValues& outputs, const nn::LayerValues& inputs) {
  for (Variable& output : outputs) {
    if (!output.defined()) continue;
    const bool is_input = std::any_of(inputs.begin(), inputs.end(),
                                      [&](const Variable& input) { return input.is_same(output); });
    const bool is_parameter = output.requires_grad() && output.is_leaf() && !is_input;
    const Storage* storage = output.value().storage().get();
    if (is_parameter || (storage && owner_of(*storage))) output = clone(output);
  }
}

}  // namespace

const nn::LayerValues& PipelineStage::forward(
    int micro_batch, nn::LayerValues inputs, RandomContext& random,
    const std::function<nn::LayerValues(const nn::LayerValues&)>& finish) {
  const RandomContextScope scope(random);
  Live& live = live_[micro_batch];
  live.inputs = std::move(inputs);
  live.outputs = nn::run_layers(layers_, live.inputs);
  if (finish) live.outputs = finish(live.outputs);
  copy_parameters(live.outputs, live.inputs);
  random = random_context();
  return live.outputs;
}

nn::LayerValues PipelineStage::evaluate(
    const nn::LayerValues& inputs, RandomContext& random,
    const std::function<nn::LayerValues(const nn::LayerValues&)>& finish) const {
  const RandomContextScope scope(random);
  NoGrad no_grad;
  nn::LayerValues outputs = nn::run_layers(layers_, inputs);
  if (finish) outputs = finish(outputs);
  random = random_context();
  return outputs;
}

PipelineStage::Live& PipelineStage::live(int micro_batch) {
  const auto found = live_.find(micro_batch);
  require<ConfigError>(found != live_.end(), "pipeline stage ", index_, ": micro-batch ", micro_batch,
                       " has no forward, or its backward is done");
  return found->second;
}

void PipelineStage::set_roots(Live& live, nn::LayerValues gradients) {
  for (size_t i = 0; i < live.outputs.size(); ++i) {
    if (!live.outputs[i].defined() || !live.outputs[i].requires_grad()) continue;
    if (i >= gradients.size() || !gradients[i].defined()) continue;
    live.roots.push_back(live.outputs[i]);
    live.gradients.push_back(std::move(gradients[i]));
  }
  live.outputs.clear();
}

namespace {

/// The gradients that leaves have got.
nn::LayerValues take_gradients(const nn::LayerValues& inputs) {
  nn::LayerValues gradients(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && inputs[i].requires_grad()) gradients[i] = inputs[i].grad();
  return gradients;
}

}  // namespace

nn::LayerValues PipelineStage::backward(int micro_batch, nn::LayerValues gradients) {
  Live& now = live(micro_batch);
  set_roots(now, std::move(gradients));
  if (!now.roots.empty()) tessera::backward(now.roots, now.gradients);
  nn::LayerValues taken = take_gradients(now.inputs);
  live_.erase(micro_batch);
  return taken;
}

nn::LayerValues PipelineStage::backward_input(int micro_batch, nn::LayerValues gradients) {
  Live& now = live(micro_batch);
  set_roots(now, std::move(gradients));
  std::vector<Variable> wanted;
  for (const Variable& input : now.inputs)
    if (input.defined() && input.requires_grad()) wanted.push_back(input);
  nn::LayerValues taken(now.inputs.size());
  if (now.roots.empty() || wanted.empty()) return taken;
  now.split = std::make_unique<SplitBackward>(now.roots, now.gradients);
  const std::vector<Variable> found = now.split->input_gradients(wanted);
  for (size_t i = 0, next = 0; i < now.inputs.size(); ++i)
    if (now.inputs[i].defined() && now.inputs[i].requires_grad()) taken[i] = found[next++];
  now.inputs.clear();
  return taken;
}

void PipelineStage::backward_weight(int micro_batch) {
  Live& now = live(micro_batch);
  if (now.split)
    now.split->weight_gradients();
  else if (!now.roots.empty())
    tessera::backward(now.roots, now.gradients);
  live_.erase(micro_batch);
}

}  // namespace tessera::dist
