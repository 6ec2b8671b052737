// The costs of layers and stages, from runs on meta, against formulas.

#include "dist/simulate/model_profile.h"

#include <doctest/doctest.h>

#include <cmath>

#include "models/gpt.h"
#include "nn/materialize.h"
#include "tensor/error.h"

using namespace tessera;

namespace {

constexpr int64_t B = 2, T = 8, C = 16, V = 32, value_bytes = B * T * C * 4;

models::GptOptions options() {
  return {.vocabulary = V,
          .block_size = T,
          .layers = 4,
          .heads = 2,
          .width = C,
          .bias = true,
          .tie_weights = false};
}

nn::LayerValues ids(Device device = meta()) {
  return {device.is_meta() ? Variable(Tensor::empty({B, T}, i64, meta()))
                           : Variable(Tensor::zeros({B, T}, i64))};
}

struct Profiled {
  models::Gpt gpt{options()};
  dist::ModelProfile profile{gpt.to_layered_model(), ids(), {ids()[0].value()}};
};

}  // namespace

TEST_CASE("model profile: FLOPs and parameters of layers are those of the formulas") {
  Profiled model;
  const auto& layers = model.profile.layers();
  REQUIRE(layers.size() == 6);  // embeddings, 4 blocks, norm and head
  CHECK(layers[0].forward.flops == 0);
  CHECK(layers[5].kind != "Block");
  const dist::LayerProfile& block = layers[1];
  CHECK(block.kind == "Block");
  // Queries, keys, values, projection: 4 C^2; the MLP: 8 C^2; a multiply-add is two.
  const int64_t products = 2 * B * T * 12 * C * C;
  CHECK(block.forward.flops > products);
  CHECK(block.forward.flops <= products + 4 * B * T * T * C);  // attention, at most all pairs
  // Without attention's recomputation a backward is two forwards, half of it each for inputs and weights.
  CHECK(block.backward.flops >= 2 * products);
  CHECK(block.backward.flops == block.backward_input.flops + block.backward_weight.flops);
  CHECK(block.backward_weight.flops >= products);
  CHECK(layers[0].backward_input.flops == 0);
  int64_t parameters = 0;
  for (const dist::ParameterProfile& parameter : block.parameters) parameters += parameter.elements;
  CHECK(parameters == model.gpt.blocks[0].parameters().numel());
}

TEST_CASE("model profile: a stage keeps the sum of its layers, and checkpointing its inputs") {
  Profiled model;
  const dist::StageProfile one = model.profile.stage(1, 2, {}), two = model.profile.stage(1, 3, {});
  CHECK(one.received == value_bytes);
  CHECK(one.received_back == value_bytes);
  CHECK(model.profile.stage(0, 1, {}).received == 0);
  CHECK(model.profile.stage(4, 6, {}).received_back == 0);
  // The value between two layers is the result of one and the input of the other.
  CHECK(two.kept == 2 * one.kept - value_bytes);
  CHECK(two.forward_flops == 2 * one.forward_flops);
  CHECK(two.backward_peak > two.kept);
  CHECK(two.kept_after_input > 0);

  const dist::StageProfile checkpointed = model.profile.stage(1, 3, {.interval = 1});
  CHECK(checkpointed.kept == 3 * value_bytes);  // both inputs and the result
  CHECK(checkpointed.backward_flops > two.backward_flops);
  CHECK(checkpointed.backward_flops <= two.backward_flops + two.forward_flops);
  const dist::StageProfile selective = model.profile.stage(1, 3, {.interval = 1, .keep = {"self_attention"}});
  CHECK(selective.kept > checkpointed.kept);
  CHECK(selective.backward_flops < checkpointed.backward_flops);
  CHECK(model.profile.stage(1, 3, {}).kept == two.kept);  // the one that is known
}

TEST_CASE("model profile: measuring runs the layers and leaves no gradients") {
  Profiled model;
  CHECK_FALSE(model.profile.has_seconds());
  models::Gpt gpt(options());
  nn::materialize(gpt, cpu(), 1);
  model.profile.measure(gpt.to_layered_model(), ids(cpu()), {ids(cpu())[0].value()}, 2);
  CHECK(model.profile.has_seconds());
  for (const dist::LayerProfile& layer : model.profile.layers()) {
    CHECK(layer.forward.seconds > 0);
    CHECK(layer.backward.seconds > 0);
  }
  // Equal layers are run once.
  CHECK(model.profile.layers()[1].forward.seconds == model.profile.layers()[4].forward.seconds);
  for (const NamedParameter& parameter : gpt.parameters()) CHECK_FALSE(parameter.variable.grad().defined());
  const std::vector<double> seconds = model.profile.seconds();
  CHECK(seconds.size() == 24);
  model.profile.set_seconds(std::vector<double>(24, 0.5));
  CHECK(model.profile.layers()[3].backward_weight.seconds == 0.5);
}

TEST_CASE("model profile: bad input is refused") {
  models::Gpt gpt(options());
  nn::materialize(gpt, cpu(), 1);
  CHECK_THROWS_WITH_AS(
      dist::ModelProfile(gpt.to_layered_model(), ids(cpu()), {ids(cpu())[0].value()}),
      "a run on meta: parameter 'weight' of Embedding 'wte' has values; expected a model before "
      "nn::materialize",
      DeviceError);
  gpt.wte.weight.set_grad(Tensor::zeros(gpt.wte.weight.shape()));
  CHECK_THROWS_AS(dist::ModelProfile(gpt.to_layered_model(), ids(cpu()), {ids(cpu())[0].value()}),
                  DeviceError);
  CHECK(gpt.wte.weight.grad().defined());  // nothing has changed
  CHECK_THROWS_WITH_AS(dist::ModelProfile({}, ids(), {}),
                       "profile of a model: expected layers and a loss, got 0 layers and no loss",
                       ConfigError);
  Profiled model;
  CHECK_THROWS_WITH_AS(model.profile.stage(3, 7, {}),
                       "profile of a stage: expected layers from 0 to 6, got [3, 7)", ConfigError);
  CHECK_THROWS_WITH_AS(model.profile.set_seconds({1}), "profile of a model: expected 24 times, got 1",
                       ConfigError);
  CHECK_THROWS_AS(model.profile.set_seconds(std::vector<double>(24, -1.0)), ConfigError);
  CHECK_THROWS_AS(model.profile.set_seconds(std::vector<double>(24, INFINITY)), ConfigError);
  CHECK_FALSE(model.profile.has_seconds());
  CHECK_THROWS_WITH_AS(model.profile.measure({}, ids(cpu()), {}),
                       "profile of a model: expected 6 layers, got 0", ConfigError);
}
