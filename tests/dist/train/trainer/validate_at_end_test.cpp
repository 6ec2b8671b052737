// The validation after the last step of a run.
#include <doctest/doctest.h>

#include <cmath>
#include <csignal>

#include "dist/train/callbacks/model_checkpoint.h"
#include "dist/train/trainer/trainer.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "optim/rules/adam.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

using Steps = std::vector<int64_t>;

/// Five batches of training, one of validation.
struct Points : DataModule {
  static std::shared_ptr<const data::Dataset> points(int64_t n) {
    Tensor x = Tensor::empty({n, 2}, f32), y = Tensor::empty({n}, i64);
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 3));
    for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = i % 3;
    return std::make_shared<data::TensorDataset>(x, y);
  }
  std::optional<LoaderSpec> train_dataloader() override { return LoaderSpec{points(20), {.batch_size = 4}}; }
  std::optional<LoaderSpec> val_dataloader() override { return LoaderSpec{points(4), {.batch_size = 4}}; }
};

struct Classifier : TaskOf<Classifier> {
  nn::Linear& out = add<nn::Linear>("out", {.in = 2, .out = 3});
  Steps validated;
  Variable forward(const Variable& x) { return out(x); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    return nn::cross_entropy((*this)(batch.x), batch.y);
  }
  void validation_step(const data::Batch&, int64_t) override { validated.push_back(trainer().global_step()); }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::Adam>(parameters, 1e-2)};
  }
};

/// Stops the run, or raises a signal, in a training batch.
struct End : Callback {
  int64_t batch;
  int signal;
  explicit End(int64_t batch, int signal = 0) : batch(batch), signal(signal) {}
  void on_before_backward(Trainer& trainer, Task&, const Variable&) override {
    if (trainer.engine().micro_steps() != batch) return;
    if (signal != 0)
      std::raise(signal);
    else
      trainer.stop();
  }
};

/// The steps after which a run is validated.
Steps steps_of(TrainerOptions options) {
  Classifier task;
  Points data;
  Trainer trainer(std::move(options));
  trainer.fit(task, data);
  return task.validated;
}

}  // namespace

TEST_CASE("validate_at_end: the order of the calls") {
  struct Trace : Callback {
    std::string calls;
    void on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) override {
      calls += "batch of step " + std::to_string(trainer.global_step()) + "\n";
    }
    void on_validation_start(Trainer&, Task&) override { calls += "validation start\n"; }
    void on_validation_epoch_start(Trainer&, Task&) override { calls += "validation epoch start\n"; }
    void on_validation_epoch_end(Trainer&, Task&) override { calls += "validation epoch end\n"; }
    void on_validation_end(Trainer&, Task&) override { calls += "validation end\n"; }
    void on_train_epoch_end(Trainer&, Task&) override { calls += "epoch end\n"; }
    void on_train_end(Trainer&, Task&) override { calls += "train end\n"; }
    void on_fit_end(Trainer&, Task&) override { calls += "fit end\n"; }
  };
  const auto trace = std::make_shared<Trace>();
  steps_of({.max_steps = 3, .validate_every = 2, .validate_at_end = true, .callbacks = {trace}});
  CHECK(trace->calls ==
        "batch of step 1\n"
        "batch of step 2\n"
        "validation start\n"
        "validation epoch start\n"
        "validation epoch end\n"
        "validation end\n"
        "batch of step 3\n"
        "validation start\n"
        "validation epoch start\n"
        "validation epoch end\n"
        "validation end\n"
        "epoch end\n"
        "train end\n"
        "fit end\n");
}

TEST_CASE("validate_at_end: the last step is validated once, whatever ends the run") {
  for (const bool at_end : {false, true}) {
    const auto with_end = [&](Steps steps, int64_t end) {
      if (at_end) steps.push_back(end);
      return steps;
    };
    CAPTURE(at_end);
    CHECK(steps_of({.max_steps = 4, .validate_every = 2, .validate_at_end = at_end}) == Steps{2, 4});
    CHECK(steps_of({.max_steps = 7, .validate_every = 2, .validate_at_end = at_end}) ==
          with_end({2, 4, 6}, 7));
    CHECK(steps_of({.max_epochs = 1, .validate_every = 3, .validate_at_end = at_end}) == with_end({3}, 5));
    CHECK(steps_of({.max_epochs = 2, .validate_every = 3, .validate_at_end = at_end}) ==
          with_end({3, 6, 9}, 10));
    CHECK(steps_of({.max_epochs = 2, .validate_at_end = at_end}) == Steps{5, 10});
    CHECK(steps_of({.max_steps = 7, .validate_at_end = at_end}) == Steps{5, 7});
    // The run ends within a step: five micro-batches, of which four are two steps.
    CHECK(steps_of({.max_epochs = 1, .accumulate = 2, .validate_every = 3, .validate_at_end = at_end}) ==
          with_end({}, 2));
    CHECK(steps_of({.max_epochs = 1, .accumulate = 2, .validate_every = 2, .validate_at_end = at_end}) ==
          Steps{2});
    CHECK(steps_of({.max_epochs = 2,
                    .validate_every = 3,
                    .validate_at_end = at_end,
                    .callbacks = {std::make_shared<End>(3)}}) == with_end({3}, 4));
    CHECK(steps_of({.validate_every = 3, .validate_at_end = at_end, .fast_dev_run = true}) ==
          with_end({}, 1));
  }
}

TEST_CASE(
    "validate_at_end: a validation that a signal leaves out at the last step is that of the resumed run") {
  for (const bool at_end : {false, true}) {
    const TemporaryFolder folder;
    const auto run = [&](const std::string& resume, const std::shared_ptr<Callback>& end) {
      TrainerOptions options{.max_steps = 4, .validate_every = 3, .validate_at_end = at_end};
      options.resume = resume;
      options.signals = {SIGTERM};
      if (end) options.callbacks.push_back(end);
      options.callbacks.push_back(std::make_shared<ModelCheckpoint>(
          ModelCheckpointOptions{.folder = folder / "run", .every_steps = 100}));
      return steps_of(std::move(options));
    };
    CHECK(run("", std::make_shared<End>(3, SIGTERM)) == Steps{3});
    CHECK(run(folder / "run", nullptr) == (at_end ? Steps{4} : Steps{}));
  }
}
