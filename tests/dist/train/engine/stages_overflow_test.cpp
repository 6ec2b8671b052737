// A loss scale's overflow in one stage of a pipeline: all stages skip the step and lower the scale together.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/layers/loss.h"
#include "dist/train/engine/initialize.h"
#include "nn/init.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/ops/creation/creation.h"
#include "tests/dist/fsdp/on_threads.h"

using namespace tessera;
using namespace tessera::training;

namespace {

constexpr int overflowing_step = 2, last_step = 5;

/// y = x + gain * loudness, where the gain is near 0: a loudness of 60,000 changes no value much, and makes
/// the gradient of this gain alone infinite in f16.
struct Gain : nn::Layer<Gain> {
  Variable& gain = parameter("gain", {1}, init::zeros());
  Variable forward(const Variable& x) const {
    return x + gain * Variable(ops::full({1}, loudness, x.dtype()));
  }
  double loudness = 1;
};

/// Four stages, each with a gain.
struct Net : nn::Layer<Net> {
  nn::Sequential& layers = add("layers", nn::Sequential{nn::Linear(3, 4), Gain(), nn::Linear(4, 4), Gain(),
                                                        nn::Linear(4, 4), Gain(), nn::Linear(4, 2), Gain()});
  Variable forward(const Variable& x) const { return layers(x); }
  nn::LayeredModel to_layered_model() const {
    nn::LayeredModel model{.layers = layers.to_layers(), .loss = {}, .result = {}};
    model.loss.run = [](const nn::LayerValues& outputs, const std::vector<Tensor>& targets) {
      return mse_loss(outputs.at(0), targets.at(0));
    };
    return model;
  }
};

std::shared_ptr<const data::Dataset> points() {
  const Tensor x = Tensor::empty({64, 3}, f32), y = Tensor::empty({64, 2}, f32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 3));
  for (int64_t i = 0; i < y.numel(); ++i) y.data<float>()[i] = 2 + std::cos(static_cast<float>(i * 5));
  return std::make_shared<data::TensorDataset>(x, y);
}

/// The values of this rank's parameters, as the optimizer updates them.
std::vector<float> values_of(optim::Optimizer& optimizer) {
  std::vector<float> values;
  for (const NamedParameter& parameter : optimizer.parameters()) {
    const Tensor flat = parameter.variable.value().to(f32).contiguous().view({-1});
    values.insert(values.end(), flat.data<float>(), flat.data<float>() + flat.numel());
  }
  return values;
}

/// Trains in `stages`, where the gain of layer `loud` overflows in one step, and returns this rank's
/// problems.
std::vector<std::string> check_overflow(dist::World& world, int stages, dist::Strategy strategy,
                                        size_t loud) {
  Net net;
  TrainingConfig config{.train_batch_size = 8, .accumulation_steps = 4, .gradient_clip = 1};
  config.stages = {.stages = stages, .partition = "uniform"};
  if (world.size() > stages) config.accumulation_steps = 2;
  config.strategy = strategy;
  config.precision = PrecisionMode::f16;
  config.scaler = {.initial_scale_power = 8, .hysteresis = 1};
  const auto adam = [](const ParameterList& parameters) -> std::unique_ptr<optim::Optimizer> {
    return std::make_unique<optim::AdamW>(parameters, 1e-2);
  };
  auto [engine, optimizer, loader, schedule] =
      initialize(net, {.config = config, .training_data = points(), .optimizer = adam, .world = &world});
  std::vector<std::string> problems;
  const auto expect = [&](bool condition, const std::string& problem) {
    if (!condition)
      problems.push_back(text(stages, " stages, ", to_string(strategy), ", layer ", loud, ": ", problem));
  };
  auto batches = loader->begin();
  for (int step = 0; step < last_step; ++step) {
    net.layers[loud].as<Gain>()->loudness = step == overflowing_step ? 60000 : 1;
    const std::vector<float> before = values_of(engine.optimizer());
    const double loss = engine.train_batch(batches, loader->end());
    expect(std::isfinite(loss), text("the loss of step ", step, " is ", loss));
    const std::vector<float> after = values_of(engine.optimizer());
    const bool is_same = before.size() == after.size() &&
                         std::memcmp(before.data(), after.data(), before.size() * sizeof(float)) == 0;
    expect(is_same == (step == overflowing_step),
           text("parameters of step ", step, is_same ? " are unchanged" : " are changed"));
    expect(engine.loss_scale() == (step < overflowing_step ? 256 : 128),
           text("the scale after step ", step, " is ", engine.loss_scale()));
    expect(engine.skipped_steps() == (step < overflowing_step ? 0 : 1),
           text("after step ", step, " ", engine.skipped_steps(), " are skipped"));
  }
  return problems;
}

}  // namespace

TEST_CASE("engine: an overflow in one stage skips the step and lowers the scale on all") {
  for (const size_t loud : {1, 7})
    test::require_no_problems(
        2, [&](dist::World& world) { return check_overflow(world, 2, dist::Strategy::no_shard, loud); });
  for (const size_t loud : {1, 3, 5, 7})
    test::require_no_problems(
        4, [&](dist::World& world) { return check_overflow(world, 4, dist::Strategy::no_shard, loud); });
}

TEST_CASE("engine: an overflow in one stage of a pipeline that is sharded") {
  for (const dist::Strategy strategy :
       {dist::Strategy::full_shard, dist::Strategy::shard_grad_op, dist::Strategy::no_shard})
    for (const size_t loud : {1, 5})
      test::require_no_problems(4,
                                [&](dist::World& world) { return check_overflow(world, 2, strategy, loud); });
  test::require_no_problems(
      8, [&](dist::World& world) { return check_overflow(world, 4, dist::Strategy::full_shard, 3); });
}
