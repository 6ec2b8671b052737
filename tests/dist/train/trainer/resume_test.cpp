// A run of a Trainer that is stopped and resumed has the bits of one that was not.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/elementwise/unary.h"
#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/train/callbacks/early_stopping.h"
#include "dist/train/callbacks/model_checkpoint.h"
#include "dist/train/trainer/trainer.h"
#include "nn/functional.h"
#include "nn/layers/dropout.h"
#include "nn/layers/linear.h"
#include "optim/rules/adam.h"
#include "optim/schedules/decay.h"
#include "tensor/error.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

struct Points : DataModule {
  int64_t batch_size = 4;
  std::shared_ptr<const data::Dataset> points(int64_t n, float shift) const {
    Tensor x = Tensor::empty({n, 4}, f32), y = Tensor::empty({n}, i64);
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 3) + shift);
    for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = i * i % 3;
    return std::make_shared<data::TensorDataset>(x, y);
  }
  std::optional<LoaderSpec> train_dataloader() override {
    return LoaderSpec{points(20, 0), {.batch_size = batch_size, .shuffle = true}};
  }
  std::optional<LoaderSpec> val_dataloader() override {
    return LoaderSpec{points(8, 1), {.batch_size = batch_size}};
  }
};

struct Classifier : TaskOf<Classifier> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 4, .out = 6});
  nn::Dropout& drop = add<nn::Dropout>("drop", 0.25);
  nn::Linear& second = add<nn::Linear>("second", {.in = 6, .out = 3});
  std::vector<double> losses;
  Variable forward(const Variable& x) { return second(drop(tanh(first(x)))); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    losses.push_back(loss.value().item());
    return loss;
  }
  void validation_step(const data::Batch& batch, int64_t) override {
    log("val_loss", nn::cross_entropy((*this)(batch.x), batch.y));
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = 1e-2}),
            optim::step_decay({.step_size = 3, .gamma = 0.5})};
  }
};

/// The losses of a run to `steps` that saves after each `every` of them.
std::vector<double> run(int64_t steps, const std::string& folder, const std::string& resume,
                        dist::World* world, TrainerOptions options = {}) {
  Points data;
  data.batch_size = world ? 4 / world->size() : 4;
  Classifier task;
  options.max_steps = steps;
  options.accumulate = 2;
  options.resume = resume;
  options.world = world;
  options.callbacks.push_back(
      std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.folder = folder, .every_steps = 1}));
  Trainer trainer(options);
  trainer.fit(task, data);
  return task.losses;
}

std::vector<double> after(const std::vector<double>& losses, int64_t steps) {
  return {losses.begin() + steps * 2, losses.end()};
}

}  // namespace

TEST_CASE(
    "trainer: a run resumed after any step continues with the same bits, in mid-epoch and with dropout") {
  for (const PrecisionMode precision : {PrecisionMode::f32, PrecisionMode::bf16, PrecisionMode::f16}) {
    const TemporaryFolder folder;
    const TrainerOptions options{.precision = precision, .gradient_clip = 0.5};
    const std::vector<double> whole = run(9, folder / "whole", "", nullptr, options);
    REQUIRE(whole.size() == 18);
    for (const int64_t stop : {1, 2, 3, 5, 8}) {
      CAPTURE(stop);
      const std::string run_folder = folder / ("run" + std::to_string(stop));
      run(stop, run_folder, "", nullptr, options);
      CHECK(run(9, run_folder, run_folder, nullptr, options) == after(whole, stop));
    }
  }
}

TEST_CASE("trainer: a run of one strategy and number of ranks resumes on another") {
  const TemporaryFolder folder;
  test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
    const std::vector<double> whole = run(6, folder / "whole", "", &world, {.strategy = "fsdp"});
    run(3, folder / "run", "", &world, {.strategy = "fsdp"});
    if (run(6, folder / "again", folder / "run", &world, {.strategy = "fsdp"}) != after(whole, 3))
      return {"other bits"};
    return {};
  });
  const auto near = [](const std::vector<double>& a, const std::vector<double>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i)
      if (std::abs(a[i] - b[i]) > 1e-6) return false;
    return true;
  };
  // Losses of one rank are of the whole batch: of the two ranks' halves it is the mean, so the weights are
  // compared by a run that goes on alone from each folder.
  CHECK(
      near(run(7, folder / "a", folder / "whole", nullptr), run(7, folder / "b", folder / "again", nullptr)));
}

TEST_CASE("trainer: the means of an epoch that a run resumes within have the bits of a run without a stop") {
  struct Logging : Classifier {
    Variable training_step(const data::Batch& batch, int64_t index) override {
      const Variable loss = Classifier::training_step(batch, index);
      log("mean loss", loss);
      log("sum", loss, {.reduction = LogReduction::sum});
      log("min", loss, {.reduction = LogReduction::min});
      log("max", loss, {.reduction = LogReduction::max});
      return loss;
    }
  };
  using Epochs = std::vector<std::map<std::string, double>>;
  struct Values : Callback {
    Epochs epochs;
    void on_train_epoch_end(Trainer& trainer, Task&) override { epochs.push_back(trainer.logged()); }
  };
  const TemporaryFolder folder;
  // 5 batches an epoch; validations before some of the saves.
  const auto epochs = [&](int64_t steps, const std::string& to, const std::string& resume, dist::World* world,
                          int64_t every_steps) {
    const auto values = std::make_shared<Values>();
    Points data;
    data.batch_size = world ? 4 / world->size() : 4;
    Logging task;
    Trainer trainer({.max_steps = steps,
                     .validate_every = 2,
                     .resume = resume,
                     .callbacks = {values, std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{
                                               .folder = to, .every_steps = every_steps, .keep = 0})},
                     .world = world});
    trainer.fit(task, data);
    return values->epochs;
  };
  const auto check = [&](dist::World* world, const std::string& name) {
    std::vector<std::string> problems;
    const Epochs whole = epochs(10, folder / (name + "whole"), "", world, 1);
    // After a save within an epoch, at its end, and at the end of a run that stops within an epoch.
    for (const auto& [stop, every] : {std::pair{3, 1}, {5, 1}, {7, 1}, {3, 0}, {6, 100}}) {
      const std::string run_folder = folder / text(name, stop, "-", every);
      epochs(stop, run_folder, "", world, every);
      const Epochs resumed = epochs(10, run_folder, run_folder, world, every);
      const Epochs expected(whole.end() - (stop < 5 ? 2 : 1), whole.end());
      for (const char* key : {"mean loss", "sum", "min", "max"})
        for (size_t i = 0; i < expected.size(); ++i)
          if (resumed.size() != expected.size() || resumed[i].at(key) != expected[i].at(key))
            problems.push_back(text(key, " after ", stop, " steps, saved every ", every));
    }
    return problems;
  };
  const std::vector<std::string> alone = check(nullptr, "one-");
  CHECK(alone.size() == 0);
  for (const std::string& problem : alone) MESSAGE(problem);
  test::require_no_problems(2, [&](dist::World& world) { return check(&world, "two-"); });
  // From two ranks to one: the same sums in another order.
  const Epochs two = epochs(5, folder / "one-of-two", folder / "two-3-1/step-00000003", nullptr, 1),
               one = epochs(5, folder / "one-of-one", folder / "one-3-1/step-00000003", nullptr, 1);
  REQUIRE(two.size() == 1);
  CHECK(two[0].at("sum") > 0);
  CHECK(one[0].at("mean loss") == doctest::Approx(two[0].at("mean loss")));
}

TEST_CASE("logged values: as text and back, to the bit; a text that is none") {
  LoggedValues values, loaded;
  values.add("a name", 0.1, 3, {});
  values.add("a name", 1.0 / 3, 1, {.on_step = true});
  values.add("least", -0.0, 1, {.reduction = LogReduction::min});
  values.add("bad", NAN, 1, {.reduction = LogReduction::sum});
  values.add("most", -INFINITY, 1, {.reduction = LogReduction::max});
  loaded.add_state(values.state());
  CHECK(loaded.state() == values.state());
  CHECK(loaded.reduce(nullptr).at("a name") == values.reduce(nullptr).at("a name"));
  CHECK(std::signbit(loaded.reduce(nullptr).at("least")));
  CHECK(loaded.epoch_name("a name") == "a name_epoch");
  CHECK(loaded.epoch_name("least") == "least");
  LoggedValues other;
  other.add("a name", 2, 1, {});
  other.add("least", -3, 1, {.reduction = LogReduction::min});
  loaded.add_state(other.state());
  CHECK(loaded.reduce(nullptr).at("a name") == doctest::Approx((0.3 + 1.0 / 3 + 2) / 5));
  CHECK(loaded.reduce(nullptr).at("least") == -3);
  CHECK(contains(message_of<CheckpointError>([&] { loaded.add_state("9 0 1 1 x\n"); }),
                 "expected a reduction"));
  CHECK(contains(message_of<CheckpointError>([&] { loaded.add_state("0 0 one 1 x\n"); }), "got 'one'"));
}

TEST_CASE("trainer: what a resumed run may not change is an error, and a folder without a checkpoint too") {
  const TemporaryFolder folder;
  run(2, folder / "run", "", nullptr);
  const auto refusal = [&](TrainerOptions options, int64_t batch_size) {
    return message_of<CheckpointError>([&] {
      Points data;
      data.batch_size = batch_size;
      Classifier task;
      options.max_steps = 4;
      options.accumulate = 2;
      Trainer trainer(options);
      trainer.fit(task, data);
    });
  };
  CHECK(refusal({.resume = folder / "run"}, 2) ==
        folder / "run" + ": this run began with train_batch_size 8, now it is 4");
  CHECK(refusal({.seed = 7, .resume = folder / "run"}, 4) ==
        folder / "run" + ": this run began with seed 42, now it is 7");
  CHECK(contains(refusal({.resume = folder / "nowhere"}, 4), folder / "nowhere"));
}

TEST_CASE("model checkpoints: the newest are kept, and the best by the monitored value") {
  const TemporaryFolder folder;
  struct Scripted : Classifier {
    std::vector<double> values = {3, 1, 2, 4, 5};
    size_t at = 0;
    void validation_step(const data::Batch&, int64_t index) override {
      if (index == 0) log("score", values.at(at++));
    }
  };
  for (const Best best : {Best::lowest, Best::highest}) {
    const std::string run_folder = folder / (best == Best::lowest ? "lowest" : "highest");
    const auto checkpoint = std::make_shared<ModelCheckpoint>(
        ModelCheckpointOptions{.folder = run_folder, .keep = 2, .monitor = "score", .best = best});
    Points data;
    Scripted task;
    Trainer trainer({.max_epochs = 5, .callbacks = {checkpoint}});
    trainer.fit(task, data);
    CHECK(checkpoint->best_value() == (best == Best::lowest ? 1 : 5));
    const std::vector<int64_t> expected =
        best == Best::lowest ? std::vector<int64_t>{10, 20, 25} : std::vector<int64_t>{20, 25};
    CHECK(dist::list_checkpoints(run_folder) == expected);
    CHECK(checkpoint->best_checkpoint() == dist::read_latest_or_best(run_folder, dist::best_name).value());
    CHECK(checkpoint->last() == run_folder + "/step-00000025");
  }
  CHECK(contains(message_of<ConfigError>([] { ModelCheckpoint c({}); }), "expected a folder"));
}

TEST_CASE("early stopping: by patience, at a threshold, for a value that is not finite, and after a resume") {
  struct Scripted : Classifier {
    std::vector<double> values;
    size_t at = 0;
    void validation_step(const data::Batch&, int64_t index) override {
      if (index == 0) log("val_loss", values.at(at++));
    }
  };
  const auto epochs = [](std::vector<double> values, EarlyStoppingOptions options,
                         std::string* reason = nullptr) {
    const auto stopping = std::make_shared<EarlyStopping>(options);
    Points data;
    Scripted task;
    task.values = values;
    Trainer trainer({.max_epochs = static_cast<int64_t>(values.size()), .callbacks = {stopping}});
    trainer.fit(task, data);
    if (reason) *reason = stopping->reason();
    return task.at;
  };
  std::string reason;
  CHECK(epochs({5, 4, 4, 4, 4, 4}, {.patience = 2}, &reason) == 4);
  CHECK(reason == "val_loss did not improve on 4 in 2 validations");
  CHECK(epochs({5, 4, 3, 2, 1}, {.patience = 2}) == 5);
  CHECK(epochs({5, 4.9, 4.8, 1, 1}, {.min_delta = 0.5, .patience = 2}) == 3);
  CHECK(epochs({1, 2, 2, 2}, {.best = Best::highest, .patience = 1}) == 3);
  CHECK(epochs({5, NAN, 1}, {}, &reason) == 2);
  CHECK(reason == "val_loss is nan");
  CHECK(epochs({5, 4, 1, 1}, {.stopping_threshold = 2}) == 3);
  CHECK(epochs({5, 9, 1}, {.divergence_threshold = 8}) == 2);
  CHECK(contains(message_of<ConfigError>([&] {
                   epochs({1, 1}, {.monitor = "loss"});
                 }),
                 "EarlyStopping: expected 'loss' among what the task logs, got val_loss"));
  CHECK(contains(message_of<ConfigError>([] { EarlyStopping s({.patience = -1}); }), "patience -1"));

  EarlyStopping before({.patience = 5}), after({.patience = 5});
  after.load_state({{"best", "0.1"}, {"waited", "3"}});
  CHECK(after.best_value() == 0.1);
  CHECK(after.waited() == 3);
  CHECK(after.state() == std::map<std::string, std::string>{{"best", "0.1"}, {"waited", "3"}});
  CHECK(before.state().at("best") == "inf");
}
