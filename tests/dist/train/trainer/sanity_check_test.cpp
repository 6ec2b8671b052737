// Validation before the first step of a run (TrainerOptions::num_sanity_val_steps).
#include <doctest/doctest.h>

#include "dist/train/callbacks/early_stopping.h"
#include "dist/train/callbacks/model_checkpoint.h"
#include "nn/layers/dropout.h"
#include "tensor/error.h"
#include "tensor/ops/creation/generator.h"
#include "tests/dist/train/callbacks/small_run.h"
#include "tests/support/temporary_folder.h"

using namespace small_run;

namespace {

/// Draws named and unnamed random numbers in training and in validation; its score is best before training.
struct Drawing : TaskOf<Drawing> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 4, .out = 6});
  nn::Dropout& drop = add<nn::Dropout>("drop", 0.25);
  nn::Linear& second = add<nn::Linear>("second", {.in = 6, .out = 3});
  std::vector<double> losses, draws;
  std::vector<int64_t> validated;  // the step of each batch
  Variable forward(const Variable& x) { return second(drop(tanh(first(x)))); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    losses.push_back(loss.value().item());
    draws.push_back(rand({}).item());
    log("train_loss", loss);
    return loss;
  }
  void validation_step(const data::Batch& batch, int64_t) override {
    validated.push_back(trainer().global_step());
    rand({3});
    log("val_loss", nn::cross_entropy((*this)(batch.x), batch.y));
    log("score", trainer().global_step() == 0 ? 0.0 : 1.0 / static_cast<double>(trainer().global_step()));
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = 0.5})};
  }
};

/// The calls up to the first step, and what `logged` has at the start of training.
struct Trace : Callback {
  std::string calls;
  std::map<std::string, double> at_check_end, at_start;
  bool is_training = false;
  void add(const char* call) {
    if (!is_training) calls += std::string(call) + "\n";
  }
  void on_fit_start(Trainer&, Task&) override { add("fit start"); }
  void on_sanity_check_start(Trainer& trainer, Task&) override {
    add(trainer.is_sanity_checking() ? "check start" : "check start, not checking");
  }
  void on_sanity_check_end(Trainer& trainer, Task&) override {
    add("check end");
    at_check_end = trainer.logged();
  }
  void on_validation_start(Trainer&, Task&) override { add("validation start"); }
  void on_validation_epoch_start(Trainer&, Task&) override { add("validation epoch start"); }
  void on_validation_batch_start(Trainer&, Task&, const data::Batch&, int64_t) override {
    add("batch start");
  }
  void on_validation_batch_end(Trainer&, Task&, const data::Batch&, int64_t) override { add("batch end"); }
  void on_validation_epoch_end(Trainer&, Task&) override { add("validation epoch end"); }
  void on_validation_end(Trainer& trainer, Task&) override {
    add("validation end");
    if (trainer.is_sanity_checking()) trainer.report("reported", 1);
  }
  void on_train_start(Trainer& trainer, Task&) override {
    add(trainer.is_sanity_checking() ? "train start, checking" : "train start");
    is_training = true;
    at_start = trainer.logged();
  }
};

struct Result {
  std::vector<double> losses, draws;
  std::vector<int64_t> validated;
};

Result run(TrainerOptions options) {
  Points data(options.world);
  Drawing task;
  if (options.max_steps < 0) options.max_epochs = 2;
  manual_seed(7);
  Trainer trainer(std::move(options));
  trainer.fit(task, data);
  return {task.losses, task.draws, task.validated};
}

using Steps = std::vector<int64_t>;

}  // namespace

TEST_CASE("sanity check: the order of the calls, and nothing of it is left when training starts") {
  const auto trace = std::make_shared<Trace>();
  const auto recorder = std::make_shared<Recorder>();
  run({.num_sanity_val_steps = 1, .callbacks = {trace}, .monitors = {recorder}});
  CHECK(trace->calls ==
        "fit start\n"
        "check start\n"
        "validation start\n"
        "validation epoch start\n"
        "batch start\n"
        "batch end\n"
        "validation epoch end\n"
        "validation end\n"
        "check end\n"
        "train start\n");
  CHECK(trace->at_check_end.contains("val_loss"));
  CHECK(trace->at_start.empty());
  CHECK(recorder->series("reported").empty());
  const Series losses = recorder->series("val_loss");
  REQUIRE(losses.size() == 2);
  CHECK(losses[0].first == 3);
}

TEST_CASE("sanity check: so many batches of a new run with validation, by default none") {
  const Steps epochs{3, 3, 6, 6};  // two batches after each of two epochs
  const auto with = [&](int64_t batches) {
    Steps steps(static_cast<size_t>(batches), 0);
    steps.insert(steps.end(), epochs.begin(), epochs.end());
    return steps;
  };
  CHECK(run({}).validated == epochs);
  CHECK(run({.num_sanity_val_steps = 1}).validated == with(1));
  CHECK(run({.num_sanity_val_steps = 2}).validated == with(2));
  CHECK(run({.num_sanity_val_steps = 9}).validated == with(2));
  CHECK(run({.num_sanity_val_steps = -1}).validated == with(2));
  CHECK(run({.num_sanity_val_steps = 2, .limit_val_batches = 1}).validated == Steps{0, 3, 6});
  CHECK(run({.num_sanity_val_steps = 2, .limit_val_batches = 0}).validated.empty());
  CHECK(run({.num_sanity_val_steps = 2, .fast_dev_run = true}).validated == Steps{1});
  CHECK(message_of<ConfigError>([] { Trainer({.max_steps = 1, .num_sanity_val_steps = -2}); }) ==
        "Trainer: num_sanity_val_steps -2: expected -1 or more");
  const TemporaryFolder folder;
  run({.max_steps = 2,
       .callbacks = {std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.folder = folder / "run"})}});
  CHECK(run({.max_steps = 3, .num_sanity_val_steps = 2, .resume = folder / "run"}).validated == Steps{3, 3});
  CHECK(run({.max_steps = 3, .num_sanity_val_steps = 1, .init_from = folder / "run"}).validated ==
        Steps{0, 3, 3});
}

TEST_CASE("sanity check: training has the same bits, orders and random numbers as without it") {
  const Result without = run({});
  REQUIRE(without.losses.size() == 6);
  for (const int64_t batches : {1, -1}) {
    const Result with = run({.num_sanity_val_steps = batches});
    CHECK(with.losses == without.losses);
    CHECK(with.draws == without.draws);
  }
  test::require_no_problems(2, [](dist::World& world) -> std::vector<std::string> {
    const Result alone = run({.strategy = "full_shard", .world = &world});
    const Result checked = run({.strategy = "full_shard", .num_sanity_val_steps = 1, .world = &world});
    std::vector<std::string> problems;
    if (checked.losses != alone.losses) problems.push_back("other losses");
    if (checked.validated != Steps{0, 3, 3, 6, 6}) problems.push_back("other validations");
    return problems;
  });
}

TEST_CASE("sanity check: early stopping and the best checkpoint do not take its values") {
  const TemporaryFolder folder;
  const auto stopping =
      std::make_shared<EarlyStopping>(EarlyStoppingOptions{.monitor = "score", .patience = 1});
  const auto saver = std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{
      .folder = folder / "run", .every_steps = 100, .monitor = "score", .save_best = true});
  const Result result = run({.num_sanity_val_steps = -1, .callbacks = {stopping, saver}});
  CHECK(result.losses.size() == 6);
  CHECK(stopping->reason().empty());
  CHECK(stopping->best_value() == doctest::Approx(1.0 / 6));
  CHECK(saver->best_value() == doctest::Approx(1.0 / 6));
  CHECK(saver->best_checkpoint() == folder / "run" + std::string("/step-00000006"));
}

TEST_CASE("sanity check: a mistake in validation is seen before the first step") {
  struct Wrong : Drawing {
    void validation_step(const data::Batch&, int64_t) override { throw ValueError("a mistake"); }
  };
  Points data;
  Wrong task;
  CHECK(message_of<ValueError>(
            [&] { Trainer({.max_steps = 2, .num_sanity_val_steps = 1}).fit(task, data); }) == "a mistake");
  CHECK(task.losses.empty());
}
