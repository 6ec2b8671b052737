#pragma once

// Shared by the tests of the Trainer: a classifier, its data, and a callback that records the calls of a run.

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/functions/elementwise/unary.h"
#include "dist/train/trainer/trainer.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "optim/rules/adam.h"
#include "optim/schedules/decay.h"
#include "tensor/error.h"

namespace traced_run {

using namespace tessera;
using namespace tessera::training;

inline std::shared_ptr<const data::Dataset> points(int64_t n, double shift = 0) {
  Tensor x = Tensor::empty({n, 4}, f32), y = Tensor::empty({n}, i64);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = std::sin(static_cast<float>(i * 3) + static_cast<float>(shift));
  for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = i * i % 3;
  return std::make_shared<data::TensorDataset>(x, y);
}

struct Points : DataModule {
  int64_t batch_size = 4, size = 12;
  std::vector<std::string> calls;
  void prepare_data() override { calls.push_back("prepare_data"); }
  void setup(Stage stage) override {
    constexpr const char* names[] = {"fit", "validate", "test", "predict"};
    calls.push_back(text("setup ", names[static_cast<int>(stage)]));
  }
  std::optional<LoaderSpec> train_dataloader() override {
    return LoaderSpec{points(size), {.batch_size = batch_size, .shuffle = true}};
  }
  std::optional<LoaderSpec> val_dataloader() override {
    return LoaderSpec{points(10, 1), {.batch_size = batch_size}};
  }
  std::optional<LoaderSpec> test_dataloader() override {
    return LoaderSpec{points(6, 2), {.batch_size = batch_size}};
  }
  std::optional<LoaderSpec> predict_dataloader() override {
    return LoaderSpec{points(6, 2), {.batch_size = batch_size}};
  }
};

struct Classifier : TaskOf<Classifier> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 4, .out = 6});
  nn::Linear& second = add<nn::Linear>("second", {.in = 6, .out = 3});
  std::vector<double> losses;
  Variable forward(const Variable& x) { return second(tanh(first(x))); }

  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    losses.push_back(loss.value().item());
    log("train_loss", loss);
    return loss;
  }
  void validation_step(const data::Batch& batch, int64_t) override {
    log("val_loss", nn::cross_entropy((*this)(batch.x), batch.y));
  }
  void test_step(const data::Batch& batch, int64_t) override {
    log("test_loss", nn::cross_entropy((*this)(batch.x), batch.y));
  }
  Tensor predict_step(const data::Batch& batch, int64_t) override { return (*this)(batch.x).value(); }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = 1e-2}),
            optim::step_decay({.step_size = 2, .gamma = 0.5})};
  }
};

/// Records the calls of a run.
struct Trace : Callback {
  std::vector<std::string> calls;
#define TRACED(point)                    \
  void point(Trainer&, Task&) override { \
    calls.push_back(#point);             \
  }
#define TRACED_BATCH(point)                                                 \
  void point(Trainer&, Task&, const data::Batch&, int64_t index) override { \
    calls.push_back(text(#point, " ", index));                              \
  }
  TRACED(on_fit_start)
  TRACED(on_fit_end)
  TRACED(on_train_start)
  TRACED(on_train_end)
  TRACED(on_train_epoch_start)
  TRACED(on_before_train_batch)
  TRACED(on_train_epoch_end)
  TRACED(on_after_backward)
  TRACED(on_before_optimizer_step)
  TRACED(on_validation_start)
  TRACED(on_validation_end)
  TRACED(on_validation_epoch_start)
  TRACED(on_validation_epoch_end)
  TRACED(on_test_epoch_start)
  TRACED(on_test_epoch_end)
  TRACED(on_predict_epoch_start)
  TRACED(on_predict_epoch_end)
  TRACED_BATCH(on_predict_batch_start)
  TRACED_BATCH(on_predict_batch_end)
  void setup(Trainer&, Task&, Stage) override {
    calls.push_back("setup");
  }
  void teardown(Trainer&, Task&, Stage) override {
    calls.push_back("teardown");
  }
  TRACED(on_test_start)
  TRACED(on_test_end)
  TRACED(on_predict_start)
  TRACED(on_predict_end)
  TRACED_BATCH(on_train_batch_start)
  TRACED_BATCH(on_train_batch_end)
  TRACED_BATCH(on_validation_batch_start)
  TRACED_BATCH(on_validation_batch_end)
  TRACED_BATCH(on_test_batch_start)
  TRACED_BATCH(on_test_batch_end)
#undef TRACED
#undef TRACED_BATCH
  void on_before_backward(Trainer&, Task&, const Variable&) override {
    calls.push_back("on_before_backward");
  }
  void on_exception(Trainer&, Task&, const std::exception& error) override {
    calls.push_back(text("on_exception: ", error.what()));
  }
};

}  // namespace traced_run
