// An epoch that a signal interrupts has not ended: the run that resumes it ends it, with all its values.
#include <doctest/doctest.h>

#include <csignal>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/train/callbacks/early_stopping.h"
#include "dist/train/callbacks/model_checkpoint.h"
#include "tests/dist/train/callbacks/small_run.h"
#include "tests/support/temporary_folder.h"

using namespace small_run;

namespace {

/// Raises a signal in the batch of training, or in the batch of the n-th validation, and records the ends.
struct Raise : Callback {
  int64_t training_batch = -1, validation = -1, validations = 0;
  std::string calls;
  void on_before_backward(Trainer& trainer, Task&, const Variable&) override {
    if (trainer.rank() == 0 && trainer.engine().micro_steps() == training_batch) std::raise(SIGTERM);
  }
  void on_validation_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t index) override {
    if (index == 0 && trainer.rank() == 0 && validations++ == validation) std::raise(SIGTERM);
  }
  void on_validation_end(Trainer& trainer, Task&) override { add("validation", trainer); }
  void on_train_epoch_end(Trainer& trainer, Task&) override { add("epoch", trainer); }
  void on_train_end(Trainer& trainer, Task&) override {
    calls += text("train ", trainer.global_step(), "\n");
  }
  void add(const char* what, const Trainer& trainer) {
    calls += text(what, " ", trainer.current_epoch(), " ", trainer.global_step(), "\n");
  }
};

struct Stepped : Classifier {
  std::vector<double> losses, rates;
  Variable training_step(const data::Batch& batch, int64_t index) override {
    const Variable loss = Classifier::training_step(batch, index);
    losses.push_back(loss.value().item());
    rates.push_back(trainer().engine().get_lr()[0]);
    return loss;
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::SGD>(parameters, 0.5), optim::exponential({.gamma = 0.5}),
            ScheduleInterval::epoch};
  }
};

/// A run, or the parts of one that was interrupted and resumed.
struct Result {
  std::vector<double> losses, rates;
  std::string calls;
  Series epochs, validations;
  double best = 0, stopping_best = 0;
  std::string best_checkpoint;
  int64_t waited = 0;
  std::map<int64_t, std::optional<double>> saved;  // values of the checkpoints, by step
  int interrupted = 0;
};

struct Case {
  int64_t validate_every = 0, every_steps = 0;
  std::string monitor = "val_loss";
  bool save_best = false;
  int64_t max_steps = -1, accumulate = 1;
};

void run(const Case& c, const std::string& folder, int64_t training_batch, int64_t validation,
         dist::World* world, Result& result) {
  const auto raise = std::make_shared<Raise>();
  raise->training_batch = training_batch;
  raise->validation = validation;
  const auto stopping = std::make_shared<EarlyStopping>(EarlyStoppingOptions{.patience = 100});
  const auto saver = std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.folder = folder,
                                                                              .every_steps = c.every_steps,
                                                                              .keep = 0,
                                                                              .monitor = c.monitor,
                                                                              .save_best = c.save_best});
  const auto recorder = std::make_shared<Recorder>();
  const bool is_resumed = result.interrupted != 0;
  Points data(world);
  Stepped task;
  Trainer trainer({.max_epochs = 2,
                   .max_steps = c.max_steps,
                   .strategy = world ? "full_shard" : "auto",
                   .accumulate = c.accumulate,
                   .validate_every = c.validate_every,
                   .resume = is_resumed ? folder : "",
                   .callbacks = {raise, stopping, saver},
                   .monitors = {recorder},
                   .world = world,
                   .signals = {SIGTERM}});
  trainer.fit(task, data);
  const auto append = [](auto& all, const auto& more) { all.insert(all.end(), more.begin(), more.end()); };
  append(result.losses, task.losses);
  append(result.rates, task.rates);
  append(result.epochs, recorder->series("train_loss"));
  append(result.validations, recorder->series("val_loss"));
  std::string calls = raise->calls;
  result.interrupted = trainer.interrupted();
  if (result.interrupted != 0) calls = calls.substr(0, calls.find("train "));
  result.calls += calls;
  result.best = saver->best_value();
  if (!saver->best_checkpoint().empty())
    result.best_checkpoint = saver->best_checkpoint().substr(folder.size());
  result.stopping_best = stopping->best_value();
  result.waited = stopping->waited();
  if (world) world->communicator().barrier();
  for (const int64_t step : dist::list_checkpoints(folder))
    result.saved[step] = dist::CheckpointReader(folder + "/" + dist::step_name(step)).state().validation_loss;
}

std::vector<std::string> differences(const Result& a, const Result& b) {
  std::vector<std::string> all;
  if (a.losses != b.losses) all.push_back("losses");
  if (a.rates != b.rates) all.push_back("rates");
  if (a.calls != b.calls) all.push_back(text("calls:\n", a.calls, "instead of\n", b.calls));
  if (a.epochs != b.epochs) all.push_back("values of epochs");
  if (a.validations != b.validations) all.push_back("values of validations");
  if (a.best != b.best) all.push_back(text("best ", a.best, " ", b.best));
  if (a.best_checkpoint != b.best_checkpoint)
    all.push_back(text("best checkpoint ", a.best_checkpoint, " instead of ", b.best_checkpoint));
  if (a.stopping_best != b.stopping_best || a.waited != b.waited) all.push_back("early stopping");
  for (const auto& [step, value] : b.saved)
    if (!a.saved.contains(step) || a.saved.at(step) != value)
      all.push_back(text("the checkpoint of step ", step));
  return all;
}

/// What differs in runs that are interrupted in each batch and in each validation, and resumed.
std::vector<std::string> check(const Case& c, dist::World* world, const std::string& folder) {
  std::vector<std::string> problems;
  Result whole;
  run(c, folder + "/whole", -1, -1, world, whole);
  int part = 0;
  for (int64_t stop = 0; stop < 10; ++stop) {
    const int64_t batch = stop < 6 ? stop : -1, validation = stop < 6 ? -1 : stop - 6;
    const std::string name = text(folder, "/run", part++);
    Result result;
    run(c, name, batch, validation, world, result);
    if (result.interrupted == 0) continue;  // there are fewer validations
    run(c, name, -1, -1, world, result);
    for (const std::string& difference : differences(result, whole))
      problems.push_back(text("batch ", batch, ", validation ", validation, ": ", difference));
  }
  return problems;
}

const Case cases[] = {{},
                      {.save_best = true},
                      {.every_steps = 3},
                      {.validate_every = 2, .every_steps = 2},
                      {.validate_every = 3, .every_steps = 100, .save_best = true},
                      {.monitor = "train_loss"}};

// The run ends within its second epoch, which ends there too.
const Case short_cases[] = {{.max_steps = 4},
                            {.every_steps = 2, .max_steps = 4},
                            {.validate_every = 3, .every_steps = 3, .monitor = "train_loss", .max_steps = 4},
                            {.validate_every = 2, .every_steps = 3, .max_steps = 4}};

}  // namespace

TEST_CASE("interrupted epochs: on_train_epoch_end is called once, where the epoch ends") {
  const TemporaryFolder folder;
  Result result;
  run({}, folder / "run", 1, -1, nullptr, result);
  CHECK(result.interrupted == SIGTERM);
  CHECK(result.calls == "");
  CHECK(result.epochs.empty());
  CHECK(result.saved.contains(2));
  run({}, folder / "run", -1, -1, nullptr, result);
  CHECK(result.calls == "validation 0 3\nepoch 0 3\nvalidation 1 6\nepoch 1 6\ntrain 6\n");
  REQUIRE(result.epochs.size() == 2);
  CHECK(result.epochs[0].second ==
        doctest::Approx((result.losses[0] + result.losses[1] + result.losses[2]) / 3));
}

TEST_CASE("interrupted epochs: a signal in the last step of a run that ends within an epoch") {
  for (const Case& c : short_cases) {
    CAPTURE(c.validate_every);
    CAPTURE(c.every_steps);
    const TemporaryFolder folder;
    const std::vector<std::string> problems = check(c, nullptr, folder / "");
    CHECK(problems.size() == 0);
    for (const std::string& problem : problems) MESSAGE(problem);
  }
  const TemporaryFolder folder;
  test::require_no_problems(2,
                            [&](dist::World& world) { return check(short_cases[0], &world, folder / ""); });
}

TEST_CASE("interrupted epochs: an epoch ends within a step, and the signal waits for its end") {
  const TemporaryFolder folder;
  const std::vector<std::string> problems = check({.accumulate = 2}, nullptr, folder / "");
  CHECK(problems.size() == 0);
  for (const std::string& problem : problems) MESSAGE(problem);
}

TEST_CASE("interrupted epochs: callbacks, schedules and monitors are as without the signal, to the bit") {
  for (const Case& c : cases) {
    CAPTURE(c.validate_every);
    CAPTURE(c.every_steps);
    CAPTURE(c.save_best);
    CAPTURE(c.monitor);
    const TemporaryFolder folder;
    const std::vector<std::string> problems = check(c, nullptr, folder / "");
    CHECK(problems.size() == 0);
    for (const std::string& problem : problems) MESSAGE(problem);
  }
  const TemporaryFolder folder;
  test::require_no_problems(2, [&](dist::World& world) { return check({}, &world, folder / ""); });
}
