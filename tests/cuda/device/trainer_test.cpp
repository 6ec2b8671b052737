// A Trainer whose model is on a device: the CPU's losses, validations and metrics; a resumed run has the same
// bits; the CPU continues from a device's checkpoint, and a device from the CPU's.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "autograd/functions/elementwise/unary.h"
#include "dist/train/callbacks/exponential_moving_average.h"
#include "dist/train/callbacks/model_checkpoint.h"
#include "dist/train/metrics/accuracy.h"
#include "dist/train/metrics/perplexity.h"
#include "dist/train/trainer/trainer.h"
#include "nn/functional.h"
#include "nn/layers/dropout.h"
#include "nn/layers/linear.h"
#include "nn/layers/normalization.h"
#include "optim/rules/adam.h"
#include "optim/schedules/decay.h"
#include "tensor/memory/account.h"
#include "tests/cuda/device/on_device.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

std::shared_ptr<const data::Dataset> points(int64_t n, float shift) {
  const Tensor x = Tensor::empty({n, 4}, f32), y = Tensor::empty({n}, i64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 3) + shift);
  for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = i * i % 3;
  return std::make_shared<data::TensorDataset>(x, y);
}

struct Points : DataModule {
  std::optional<LoaderSpec> train_dataloader() override {
    return LoaderSpec{points(20, 0), {.batch_size = 4, .shuffle = true}};
  }
  std::optional<LoaderSpec> val_dataloader() override {
    return LoaderSpec{points(10, 1), {.batch_size = 4}};  // the last batch is smaller
  }
};

struct Classifier : TaskOf<Classifier> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 4, .out = 8});
  nn::Dropout& drop = add<nn::Dropout>("drop", 0.25);
  nn::LayerNorm& norm = add<nn::LayerNorm>("norm", 8);
  nn::Linear& second = add<nn::Linear>("second", {.in = 8, .out = 3});
  Accuracy accuracy;
  Perplexity perplexity;
  std::vector<double> losses, validations;
  Variable forward(const Variable& x) { return second(norm(drop(tanh(first(x))))); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    losses.push_back(loss.item());
    return loss;
  }
  void validation_step(const data::Batch& batch, int64_t) override {
    const Variable logits = (*this)(batch.x);
    accuracy.update(logits, batch.y);
    perplexity.update(logits, batch.y);
    const Variable loss = nn::cross_entropy(logits, batch.y);
    validations.push_back(loss.item());
    log("val_loss", loss);
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = 1e-2}),
            optim::step_decay({.step_size = 3, .gamma = 0.5})};
  }
};

struct Results {
  std::vector<double> losses, validations;
  double accuracy, perplexity;
};

/// A run to `steps` steps of two micro-batches, which saves after each step.
Results run(Device device, PrecisionMode precision, int64_t steps, const std::string& folder,
            const std::string& resume = "") {
  Points data;
  Classifier task;
  TrainerOptions options{.precision = precision, .accumulate = 2, .gradient_clip = 0.5, .device = device};
  options.max_steps = steps;
  options.resume = resume;
  options.callbacks.push_back(
      std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.folder = folder, .every_steps = 1}));
  options.callbacks.push_back(std::make_shared<ExponentialMovingAverage>());
  Trainer trainer(options);
  trainer.fit(task, data);
  for (const NamedParameter& p : task.parameters()) CHECK(p.variable.device() == device);
  return {task.losses, task.validations, task.accuracy.compute().item(), task.perplexity.compute().item()};
}

void check_close(const std::vector<double>& there, const std::vector<double>& here, double tolerance) {
  REQUIRE(there.size() == here.size());
  REQUIRE(!there.empty());
  for (size_t i = 0; i < here.size(); ++i)
    CHECK(std::abs(there[i] - here[i]) <= tolerance * std::abs(here[i]));
}

std::vector<double> after(const std::vector<double>& losses, size_t steps) {
  return {losses.begin() + static_cast<std::ptrdiff_t>(2 * steps), losses.end()};
}

}  // namespace

TEST_CASE("cuda: a trainer on the device has the CPU's losses, and the same bits when it is resumed") {
  const Device device = test::device_under_test();
  for (const PrecisionMode precision : {PrecisionMode::f32, PrecisionMode::bf16, PrecisionMode::f16}) {
    const TemporaryFolder folder;
    // In f32 sums have another order; in the half types a rounding step of the parameters.
    const double tolerance = precision == PrecisionMode::f32 ? 1e-5 : 2e-2;
    const Results here = run(cpu(), precision, 7, folder / "cpu");
    const int64_t held = current_account()->total().current;
    const Results there = run(device, precision, 7, folder / "device");
    CHECK(current_account()->total().current == held);
    check_close(there.losses, here.losses, tolerance);
    check_close(there.validations, here.validations, tolerance);
    check_close({there.perplexity}, {here.perplexity}, tolerance);
    if (precision == PrecisionMode::f32) CHECK(there.accuracy == here.accuracy);

    run(device, precision, 3, folder / "first");
    CHECK(run(device, precision, 7, folder / "rest", folder / "first").losses == after(there.losses, 3));
    // From the other kind of device.
    check_close(run(cpu(), precision, 7, folder / "back", folder / "first").losses, after(here.losses, 3),
                tolerance);
    run(cpu(), precision, 3, folder / "start");
    check_close(run(device, precision, 7, folder / "forth", folder / "start").losses, after(here.losses, 3),
                tolerance);
  }
}
