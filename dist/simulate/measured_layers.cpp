// The time of each layer, by running a micro-batch.

#include <algorithm>
#include <array>
#include <cmath>

#include "autograd/grad_mode.h"
#include "dist/pipeline/run/stage.h"
#include "dist/simulate/model_profile.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/profile/span.h"

namespace tessera::dist {
namespace {

bool are_equal(const LayerProfile& a, const LayerProfile& b) {
  return a.kind == b.kind && a.forward.flops == b.forward.flops && a.forward.bytes == b.forward.bytes &&
         a.backward.flops == b.backward.flops &&
         std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(),
                    [](const ParameterProfile& x, const ParameterProfile& y) {
                      return x.elements == y.elements && x.dtype == y.dtype && x.is_trained == y.is_trained;
                    });
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

nn::LayerValues ones_like(const nn::LayerValues& values) {
  nn::LayerValues ones;
  for (const Variable& value : values)
    ones.push_back(value.defined() && value.requires_grad()
                       ? Variable(ops::full(value.shape(), 1, value.dtype(), value.value().device()))
                       : Variable());
  return ones;
}

/// Seconds of F, B, I and W of a layer.
class LayerClock {
 public:
  void run(PipelineStage& stage, const nn::LayerValues& inputs,
           const std::function<nn::LayerValues(const nn::LayerValues&)>& finish) {
    nn::LayerValues outputs = forward(stage, inputs, finish);
    nn::LayerValues back = ones_like(outputs);
    outputs.clear();
    time(1, [&] { stage.backward(0, std::move(back)); });
    outputs = forward(stage, inputs, finish);
    back = ones_like(outputs);
    outputs.clear();
    time(2, [&] { stage.backward_input(0, std::move(back)); });
    time(3, [&] { stage.backward_weight(0); });
  }
  double median_of(size_t pass) const { return median(seconds_[pass]); }

 private:
  nn::LayerValues forward(PipelineStage& stage, const nn::LayerValues& inputs,
                          const std::function<nn::LayerValues(const nn::LayerValues&)>& finish) {
    nn::LayerValues leaves, outputs;
    for (const Variable& input : inputs) leaves.push_back(Variable(input.value(), input.requires_grad()));
    time(0, [&] { outputs = stage.forward(0, std::move(leaves), random_context(), finish); });
    return outputs;
  }
  template <class Work>
  void time(size_t pass, const Work& work) {
    const int64_t began = profile_clock();
    work();
    seconds_[pass].push_back(1e-9 * static_cast<double>(profile_clock() - began));
  }
  std::array<std::vector<double>, 4> seconds_;
};

/// Removes the gradients of a model's parameters when it ends.
class GradientsRemoved {
 public:
  explicit GradientsRemoved(const nn::LayeredModel& model) : model_(model) {}
  ~GradientsRemoved() {
    for (const nn::LayerSpec& layer : model_.layers) remove(layer.modules);
    remove(model_.loss.modules);
  }
  GradientsRemoved(const GradientsRemoved&) = delete;
  GradientsRemoved& operator=(const GradientsRemoved&) = delete;

 private:
  static void remove(const std::vector<const nn::Module*>& modules) {
    for (const nn::Module* module : modules)
      module->for_each_entry(
          [](const std::string&, const nn::Module::Entry& entry) { entry.variable.set_grad({}); });
  }
  const nn::LayeredModel& model_;
};

}  // namespace

void ModelProfile::measure(const nn::LayeredModel& model, const nn::LayerValues& inputs,
                           const std::vector<Tensor>& targets, int times) {
  require<ConfigError>(model.layers.size() == layers_.size(), "profile of a model: expected ", layers_.size(),
                       " layers, got ", model.layers.size());
  require<ConfigError>(times >= 1, "profile of a model: expected at least 1 run, got ", times);
  const GradMode record(true);
  const RandomContextScope random{random_context()};
  const GradientsRemoved removed_at_the_end(model);
  nn::LayerValues values = inputs;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const bool is_last = i + 1 == layers_.size();
    PipelineStage stage(static_cast<int>(i), {&model.layers[i], 1});
    const auto finish = [&](const nn::LayerValues& outputs) {
      return nn::LayerValues{model.loss.run(outputs, targets)};
    };
    const auto equal = std::find_if(layers_.begin(), layers_.begin() + static_cast<int64_t>(i),
                                    [&](const LayerProfile& other) { return are_equal(other, layers_[i]); });
    LayerProfile& layer = layers_[i];
    if (equal != layers_.begin() + static_cast<int64_t>(i)) {
      layer.forward.seconds = equal->forward.seconds;
      layer.backward.seconds = equal->backward.seconds;
      layer.backward_input.seconds = equal->backward_input.seconds;
      layer.backward_weight.seconds = equal->backward_weight.seconds;
    } else {
      LayerClock warm_up, clock;
      const auto last = is_last ? std::function<nn::LayerValues(const nn::LayerValues&)>(finish) : nullptr;
      warm_up.run(stage, values, last);
      for (int k = 0; k < times; ++k) clock.run(stage, values, last);
      layer.forward.seconds = clock.median_of(0);
      layer.backward.seconds = clock.median_of(1);
      layer.backward_input.seconds = clock.median_of(2);
      layer.backward_weight.seconds = clock.median_of(3);
    }
    if (is_last) break;
    const nn::LayerValues& shapes = values_before(static_cast<int64_t>(i) + 1);
    nn::LayerValues next = stage.evaluate(values, random_context(), {});
    require<ConfigError>(next.size() == shapes.size(), "profile of a model: layer '", layer.name,
                         "': expected ", shapes.size(), " values, got ", next.size());
    for (size_t k = 0; k < next.size(); ++k) next[k] = Variable(next[k].value(), shapes[k].requires_grad());
    values = std::move(next);
  }
  has_seconds_ = true;
}

std::vector<double> ModelProfile::seconds() const {
  std::vector<double> seconds;
  for (const LayerProfile& layer : layers_)
    for (const LayerPass* pass :
         {&layer.forward, &layer.backward, &layer.backward_input, &layer.backward_weight})
      seconds.push_back(pass->seconds);
  return seconds;
}

void ModelProfile::set_seconds(const std::vector<double>& seconds) {
  require<ConfigError>(seconds.size() == 4 * layers_.size(), "profile of a model: expected ",
                       4 * layers_.size(), " times, got ", seconds.size());
  for (size_t i = 0; i < seconds.size(); ++i)
    require<ConfigError>(seconds[i] >= 0 && std::isfinite(seconds[i]), "profile of a model: layer '",
                         layers_[i / 4].name, "': expected a time of 0 or more seconds, got ", seconds[i]);
  size_t next = 0;
  for (LayerProfile& layer : layers_)
    for (LayerPass* pass : {&layer.forward, &layer.backward, &layer.backward_input, &layer.backward_weight})
      pass->seconds = seconds[next++];
  has_seconds_ = true;
}

}  // namespace tessera::dist
