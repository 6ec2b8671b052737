#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/functions/elementwise/unary.h"
#include "dist/train/monitors/monitor.h"
#include "dist/train/profile/wall_clock.h"
#include "dist/train/trainer/trainer.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "optim/rules/sgd.h"
#include "optim/schedules/decay.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"

/// A task, its data and a monitor, with which callbacks are tested.
namespace small_run {

using namespace tessera;
using namespace tessera::training;

inline std::shared_ptr<const data::Dataset> points(int64_t n, float shift = 0) {
  Tensor x = Tensor::empty({n, 4}, f32), y = Tensor::empty({n}, i64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 3) + shift);
  for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = i * i % 3;
  return std::make_shared<data::TensorDataset>(x, y);
}

/// `size` samples of training in batches of 4 over all ranks, 8 of validation, 4 of test.
struct Points : DataModule {
  explicit Points(const dist::World* world = nullptr, int64_t count = 12)
      : batch_size(4 / (world ? world->size() : 1)), size(count) {}
  int64_t batch_size, size;
  std::optional<LoaderSpec> train_dataloader() override {
    return LoaderSpec{points(size), {.batch_size = batch_size, .shuffle = true}};
  }
  std::optional<LoaderSpec> val_dataloader() override {
    return LoaderSpec{points(8, 1), {.batch_size = batch_size}};
  }
  std::optional<LoaderSpec> test_dataloader() override {
    return LoaderSpec{points(4, 2), {.batch_size = batch_size}};
  }
};

struct Classifier : TaskOf<Classifier> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 4, .out = 6});
  nn::Linear& second = add<nn::Linear>("second", {.in = 6, .out = 3});
  LogOptions options = {};  // of train_loss
  Variable forward(const Variable& x) { return second(tanh(first(x))); }

  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    log("train_loss", loss, options);
    return loss;
  }
  void validation_step(const data::Batch& batch, int64_t) override {
    log("val_loss", nn::cross_entropy((*this)(batch.x), batch.y));
  }
  void test_step(const data::Batch& batch, int64_t) override {
    log("test_loss", nn::cross_entropy((*this)(batch.x), batch.y));
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = 0.5}),
            optim::step_decay({.step_size = 2, .gamma = 0.5})};
  }
};

/// Keeps what it receives.
struct Recorder : Monitor {
  std::vector<std::string> calls;
  RunDescription run;
  std::vector<std::pair<int64_t, std::map<std::string, double>>> rows;
  std::map<std::string, std::string> texts;
  void begin(const RunDescription& description) override {
    run = description;
    calls.push_back("begin");
  }
  void scalars(int64_t step, std::span<const MetricValue> values) override {
    calls.push_back(tessera::text("scalars ", step));
    rows.push_back({step, {}});
    for (const MetricValue& value : values) rows.back().second[value.name] = value.value;
  }
  void text(int64_t, const std::string& name, const std::string& content) override { texts[name] = content; }
  void flush() override { calls.push_back("flush"); }
  void end() override { calls.push_back("end"); }
  void close() override { calls.push_back("close"); }

  /// The values of a name, with their steps.
  std::vector<std::pair<int64_t, double>> series(const std::string& name) const {
    std::vector<std::pair<int64_t, double>> found;
    for (const auto& [step, values] : rows)
      if (const auto at = values.find(name); at != values.end()) found.push_back({step, at->second});
    return found;
  }
};

using Series = std::vector<std::pair<int64_t, double>>;

/// A clock that a test moves.
struct ManualClock {
  double now = 100;
  SecondsClock read() {
    return [this] { return now; };
  }
};

}  // namespace small_run
