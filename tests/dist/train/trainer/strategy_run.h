#pragma once

// Shared by the tests of strategies: a small classifier, with or without an optimizer of its own, and its
// runs.

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/functions/elementwise/unary.h"
#include "dist/train/trainer/trainer.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "optim/rules/adam.h"

namespace strategy_run {

using namespace tessera;
using namespace tessera::training;

using Losses = std::vector<double>;
constexpr int64_t samples = 512;

inline std::shared_ptr<const data::Dataset> points() {
  Tensor x = Tensor::empty({samples, 4}, f32), y = Tensor::empty({samples}, i64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 3));
  for (int64_t i = 0; i < samples; ++i) y.data<int64_t>()[i] = i * i % 3;
  return std::make_shared<data::TensorDataset>(x, y);
}

struct Net : nn::Layer<Net> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 4, .out = 8});
  nn::Linear& second = add<nn::Linear>("second", {.in = 8, .out = 3});
  Variable forward(const Variable& x) { return second(tanh(first(x))); }
};

/// Without an optimizer and a schedule of its own, if `setup` gives none.
struct Classifier : Task {
  Net net;
  Losses losses, rates;
  std::function<OptimizerSetup(const ParameterList&)> setup;
  nn::Module& module() override { return net; }
  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy(net(batch.x), batch.y);
    if (loss.value().is_meta()) return loss;  // in `Trainer::tune`
    losses.push_back(loss.value().item());
    rates.push_back(trainer().engine().get_lr().front());
    return loss;
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return setup ? setup(parameters) : Task::configure_optimizers(parameters);
  }
};

inline OptimizerSetup adam(const ParameterList& parameters) {
  return {std::make_unique<optim::Adam>(parameters, 1e-2)};
}

inline LoaderSpec loader(int64_t batch_size) {
  return {points(), {.batch_size = batch_size, .shuffle = true, .drop_last = true}};
}

inline DeepSpeedStrategy json(std::string text) {
  return {JsonText{std::move(text)}};
}

/// The configuration of an optimizer and of the keys `more`.
inline DeepSpeedStrategy with_adam(const std::string& more) {
  return json("{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 0.01}},\n" + more + "}");
}

inline Losses losses_of(TrainerOptions options, int64_t batch_size = 4,
                        std::function<OptimizerSetup(const ParameterList&)> setup = {}) {
  Classifier task;
  task.setup = std::move(setup);
  Loaders data(loader(batch_size));
  Trainer(std::move(options)).fit(task, data);
  return task.losses;
}

}  // namespace strategy_run
