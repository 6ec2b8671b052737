#include "dist/train/callbacks/reports/speed_monitor.h"

#include <doctest/doctest.h>

#include "tests/dist/train/callbacks/small_run.h"

using namespace small_run;

namespace {

/// Takes 1, 2, 3, ... seconds in the batches of an epoch, and 100 in a batch of a validation.
struct Slow : Classifier {
  ManualClock& time;
  explicit Slow(ManualClock& clock) : time(clock) {}
  Variable training_step(const data::Batch& batch, int64_t index) override {
    time.now += static_cast<double>(index + 1);
    return Classifier::training_step(batch, index);
  }
  void validation_step(const data::Batch&, int64_t) override { time.now += 100; }
};

}  // namespace

TEST_CASE("speed monitor: the seconds of the batches add up to the epoch, without its validations") {
  ManualClock time;
  const auto recorder = std::make_shared<Recorder>();
  const auto speed =
      std::make_shared<SpeedMonitor>(SpeedMonitorOptions{.tokens_per_sample = 10, .clock = time.read()});
  Points data(nullptr, 10);  // batches of 4, 4 and 2
  Slow task(time);
  Trainer trainer({.max_epochs = 2, .validate_every = 2, .callbacks = {speed}, .monitors = {recorder}});
  trainer.fit(task, data);
  const Series seconds = recorder->series("second_per_batch");
  CHECK(seconds == Series{{1, 1}, {2, 2}, {3, 3}, {4, 1}, {5, 2}, {6, 3}});
  double sum = 0;
  for (size_t i = 3; i < 6; ++i) sum += seconds[i].second;
  CHECK(sum == speed->epoch_seconds());
  CHECK(speed->second_per_batch() == 3);
  CHECK(recorder->series("samples_per_second") ==
        Series{{1, 4}, {2, 2}, {3, 2.0 / 3}, {4, 4}, {5, 2}, {6, 2.0 / 3}});
  CHECK(recorder->series("tokens_per_second")[1] == std::pair<int64_t, double>{2, 20});
}

TEST_CASE("speed monitor: by epochs and by steps of several micro-batches, over all ranks") {
  test::require_no_problems(2, [](dist::World& world) -> std::vector<std::string> {
    ManualClock time;
    const auto by_epoch = std::make_shared<Recorder>(), by_step = std::make_shared<Recorder>();
    const auto fit = [&](const std::shared_ptr<Recorder>& recorder, int64_t every) {
      Points data(&world, 14);  // 4 batches of all ranks, the last of 2 samples
      Slow task(time);
      Trainer trainer({.max_epochs = 1,
                       .accumulate = 2,
                       .callbacks = {std::make_shared<SpeedMonitor>(
                           SpeedMonitorOptions{.every_steps = every, .clock = time.read()})},
                       .monitors = {recorder},
                       .world = &world});
      trainer.fit(task, data);
    };
    fit(by_epoch, 0);
    fit(by_step, 1);
    if (world.rank() != 0) return {};
    if (by_epoch->series("second_per_batch") != Series{{2, 2.5}}) return {"seconds by epoch"};
    if (by_epoch->series("samples_per_second") != Series{{2, 1.4}}) return {"samples by epoch"};
    if (by_step->series("second_per_batch") != Series{{1, 1.5}, {2, 3.5}}) return {"seconds by step"};
    if (by_step->series("samples_per_second") != Series{{1, 8.0 / 3}, {2, 6.0 / 7}})
      return {"samples by step"};
    if (!by_step->series("tokens_per_second").empty()) return {"tokens"};
    return {};
  });
  CHECK(contains(message_of<ConfigError>([] { SpeedMonitor m({.clock = nullptr}); }), "clock"));
  CHECK(contains(message_of<ConfigError>([] { SpeedMonitor m({.tokens_per_sample = -2}); }), "-2"));
}
