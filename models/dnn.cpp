#include "models/dnn.h"

#include "tensor/error.h"

namespace tessera::models {

Dnn::Dnn(Options options) : Layer(options) {
  require<ConfigError>(o.layers >= 1, "Dnn: expected layers to be at least 1, got ", o.layers);
  require<ConfigError>(o.width >= 1, "Dnn: expected width to be at least 1, got ", o.width);
  for (int64_t i = 0; i < o.layers; ++i)
    layers.push(
        {.in = o.width, .out = o.width, .weight_init = init::kaiming_normal(), .bias_init = init::zeros()});
}

std::string Dnn::describe_options() const {
  return text(o.layers, " layers, ", o.width, " wide");
}

Variable Dnn::forward(const Variable& x) const {
  Variable y = layers[0](x);
  // The layer applies ReLU as it reads its input, without a pass or a tensor for it.
  for (size_t i = 1; i < layers.size(); ++i) y = layers[i].forward_activated(y, Activation::relu);
  return y;
}

Variable Dnn::loss(const Variable& x, const Tensor& target) const {
  return call(nn::rerunnable([this, target](const Variable& in) { return mse_loss(forward(in), target); }),
              x);
}

std::vector<nn::LayerSpec> Dnn::to_layers() const {
  std::vector<nn::LayerSpec> list{nn::module_layer(layers[0])};
  for (size_t i = 1; i < layers.size(); ++i) {
    const nn::Linear& layer = layers[i];
    list.push_back(nn::function_layer(layer.full_name(), {&layer}, [&layer](const Variable& x) {
      return layer.forward_activated(x, Activation::relu);
    }));
    list.back().kind = layer.kind();
  }
  return list;
}

nn::LayeredModel Dnn::to_layered_model() const {
  const auto loss = [](const nn::LayerValues& outputs, const std::vector<Tensor>& targets) {
    return mse_loss(outputs.at(0), targets.at(0));
  };
  return {.layers = to_layers(), .loss = {.run = loss}};
}

DnnOptions wide_dnn() {
  return {.layers = 3, .width = 2048};
}

DnnOptions deep_dnn() {
  return {.layers = 256, .width = 256};
}

int64_t parameter_count(const DnnOptions& o) {
  return o.layers * (o.width * o.width + o.width);
}

int64_t flops_per_sample(const DnnOptions& o) {
  return (6 * o.layers - 2) * o.width * o.width;
}

}  // namespace tessera::models
