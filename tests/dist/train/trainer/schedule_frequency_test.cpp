// OptimizerSetup::frequency: a schedule that changes every n steps or epochs, with rates computed by hand.
#include <doctest/doctest.h>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/train/callbacks/model_checkpoint.h"
#include "tensor/error.h"
#include "tests/dist/train/callbacks/small_run.h"
#include "tests/support/temporary_folder.h"

using namespace small_run;

namespace {

using Setup = std::function<OptimizerSetup(const ParameterList&)>;
using Rates = std::vector<double>;

struct Scheduled : Classifier {
  Setup setup;
  Rates rates;
  Variable training_step(const data::Batch& batch, int64_t index) override {
    if (trainer().is_at_step_end()) rates.push_back(trainer().engine().get_lr().back());
    log("train_score", 1.0);
    return Classifier::training_step(batch, index);
  }
  void validation_step(const data::Batch&, int64_t) override { log("score", 1.0); }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override { return setup(parameters); }
};

std::unique_ptr<optim::SGD> sgd(const ParameterList& parameters) {
  return std::make_unique<optim::SGD>(parameters, 0.5);
}

/// Halves the rate in each of its steps.
Setup halving(ScheduleInterval interval, int64_t frequency) {
  return [=](const ParameterList& parameters) {
    return OptimizerSetup{.optimizer = sgd(parameters),
                          .schedule = optim::exponential({.gamma = 0.5}),
                          .interval = interval,
                          .frequency = frequency};
  };
}

/// A plateau that reduces to a tenth at the second value that is no better; all values are equal.
Setup plateau(const std::string& monitor, int64_t frequency) {
  return [=](const ParameterList& parameters) {
    return OptimizerSetup{
        .optimizer = sgd(parameters),
        .frequency = frequency,
        .plateau = PlateauSchedule{.monitor = monitor, .options = {.factor = 0.1, .patience = 1}}};
  };
}

/// The rates of the steps of a run, of which an epoch has three.
Rates rates_of(const Setup& setup, TrainerOptions options) {
  Points data(options.world, 12 * options.accumulate);
  Scheduled task;
  task.setup = setup;
  Trainer trainer(std::move(options));
  trainer.fit(task, data);
  return task.rates;
}

std::string error_of(const Setup& setup) {
  return message_of<ConfigError>([&] { rates_of(setup, {.max_steps = 1}); });
}

bool are_near(const Rates& rates, const Rates& expected) {
  if (rates.size() != expected.size()) return false;
  for (size_t i = 0; i < rates.size(); ++i)
    if (std::abs(rates[i] - expected[i]) > 1e-12) return false;
  return true;
}

}  // namespace

TEST_CASE("frequency: a schedule of steps or epochs changes after every n of them") {
  const Rates every_second{0.5, 0.5, 0.25, 0.25, 0.125, 0.125, 0.0625};
  CHECK(are_near(rates_of(halving(ScheduleInterval::step, 2), {.max_steps = 7}), every_second));
  CHECK(are_near(rates_of(halving(ScheduleInterval::step, 2), {.max_steps = 7, .accumulate = 2}),
                 every_second));
  CHECK(are_near(rates_of(halving(ScheduleInterval::step, 1), {.max_steps = 3}), {0.5, 0.25, 0.125}));
  CHECK(are_near(rates_of(halving(ScheduleInterval::step, 9), {.max_steps = 3}), {0.5, 0.5, 0.5}));
  CHECK(are_near(rates_of(halving(ScheduleInterval::epoch, 2), {.max_epochs = 5}),
                 {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125}));
  const Setup by_group = [](const ParameterList& parameters) {
    return OptimizerSetup{.optimizer = sgd(parameters),
                          .frequency = 3,
                          .group_schedules = {optim::exponential({.gamma = 0.5})}};
  };
  CHECK(are_near(rates_of(by_group, {.max_steps = 5}), {0.5, 0.5, 0.5, 0.25, 0.25}));
}

TEST_CASE("frequency: ReduceLROnPlateau takes every n-th value") {
  // Of values 1, 2, ... the first that is taken is the best one, the third reduces.
  CHECK(are_near(rates_of(plateau("score", 1), {.max_steps = 5, .validate_every = 1}),
                 {0.5, 0.5, 0.5, 0.05, 0.05}));
  CHECK(are_near(rates_of(plateau("score", 2), {.max_steps = 8, .validate_every = 1}),
                 {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.05, 0.05}));
  CHECK(are_near(rates_of(plateau("train_score", 2), {.max_epochs = 7}),
                 {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5,  0.5,  0.5, 0.5,
                  0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.05, 0.05, 0.05}));
}

TEST_CASE("frequency: a run resumed at any step has the rates of one without a stop, to the bit") {
  const std::pair<const char*, Setup> setups[] = {{"steps", halving(ScheduleInterval::step, 2)},
                                                  {"epochs", halving(ScheduleInterval::epoch, 2)},
                                                  {"values", plateau("score", 2)},
                                                  {"epochs' values", plateau("train_score", 2)}};
  for (const auto& [name, setup] : setups) {
    CAPTURE(std::string(name));
    const TemporaryFolder folder;
    const auto run = [&](const std::string& to, const std::string& resume) {
      TrainerOptions options{.max_epochs = 7, .validate_every = 2, .resume = resume};
      if (!to.empty())
        options.callbacks = {std::make_shared<ModelCheckpoint>(
            ModelCheckpointOptions{.folder = folder / to, .every_steps = 1, .keep = 0})};
      return rates_of(setup, std::move(options));
    };
    const Rates whole = run("whole", "");
    CHECK(whole.front() != whole.back());
    for (const int64_t stop : {1, 2, 3, 4, 5, 6, 8, 9, 12, 13, 18}) {
      const std::string from = folder / ("whole/" + dist::step_name(stop));
      CHECK(run("", from) == Rates(whole.begin() + stop, whole.end()));
    }
  }
  const TemporaryFolder folder;
  test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
    const Rates rates =
        rates_of(plateau("score", 2),
                 {.max_steps = 8, .strategy = "full_shard", .validate_every = 1, .world = &world});
    if (are_near(rates, {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.05, 0.05})) return {};
    return {"other rates"};
  });
}

TEST_CASE("frequency: a stretched schedule is reported with the run's step") {
  const TemporaryFolder folder;
  const auto note = [&](int64_t steps, const std::string& resume) {
    Points data;
    Scheduled task;
    task.setup = [=](const ParameterList& parameters) {
      return OptimizerSetup{.optimizer = sgd(parameters),
                            .schedule = optim::polynomial({.total_iters = steps / 2}),
                            .frequency = 2};
    };
    Trainer trainer(
        {.max_steps = steps,
         .resume = resume,
         .callbacks = {std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.folder = folder / "run"})}});
    trainer.fit(task, data);
    return trainer.resume_note();
  };
  note(4, "");
  CHECK(contains(note(8, folder / "run"), "was stretched: the rate of step 4 was 0 and is 0.25"));
}

TEST_CASE("frequency: one below 1, or without a schedule, is an error") {
  CHECK(error_of(halving(ScheduleInterval::step, 0)) ==
        "Task::configure_optimizers: frequency 0: expected 1 or more");
  CHECK(error_of([](const ParameterList& parameters) {
          return OptimizerSetup{.optimizer = sgd(parameters), .frequency = 2};
        }) ==
        "Task::configure_optimizers: frequency 2: expected a schedule, group_schedules or plateau, got none");
}
