#include "dist/train/callbacks/prints/step_log_printer.h"

#include <doctest/doctest.h>

#include <sstream>

#include "tests/dist/train/callbacks/small_run.h"

using namespace small_run;

namespace {

constexpr int64_t GiB = int64_t{1} << 30;

/// 1/4 s of loading, 1/2 s of forward, 1 s of backward, 1/8 s of an update, and 100 s of a validation.
struct Timed : Callback {
  ManualClock& time;
  explicit Timed(ManualClock& clock) : time(clock) {}
  void on_train_batch_start(Trainer&, Task&, const data::Batch&, int64_t) override { time.now += 0.25; }
  void on_before_backward(Trainer&, Task&, const Variable&) override { time.now += 0.5; }
  void on_after_backward(Trainer&, Task&) override { time.now += 1; }
  void on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) override {
    if (trainer.is_at_step_end()) time.now += 0.125;
  }
  void on_validation_batch_start(Trainer&, Task&, const data::Batch&, int64_t) override { time.now += 100; }
};

std::string printed_blocks(TrainerOptions options, StepLogOptions log, dist::World* world = nullptr) {
  std::ostringstream out;
  ManualClock time;
  log.clock = time.read();
  log.account = make_intrusive<MemoryAccount>();
  log.account->add(MemoryCategory::other, GiB / 4);
  log.account->add(MemoryCategory::other, GiB / 4);
  log.account->remove(MemoryCategory::other, GiB / 4);
  Points data(world, 20);
  Classifier task;
  options.callbacks = {std::make_shared<Timed>(time), std::make_shared<StepLogPrinter>(out, log)};
  options.world = world;
  Trainer trainer(std::move(options));
  trainer.fit(task, data);
  return out.str();
}

}  // namespace

TEST_CASE("step log printer: a block every so many steps, whose parts add up to the step") {
  const std::string blocks =
      printed_blocks({.max_steps = 30}, {.steps_per_print = 10, .wall_clock_breakdown = true});
  // 4 samples in 1.875 s, and validations in no interval.
  CHECK(
      blocks ==
      "step=10, AvgSamplesPerSec=2.13, AvgMemAllocated=0.250GB, MaxMemAllocated=0.500GB\n"
      "time (ms) | data: 250.00 | fwd: 500.00 | bwd: 1000.00 | comm: 0.00 | step: 125.00 | iter: 1875.00\n"
      "step=20, AvgSamplesPerSec=2.13, AvgMemAllocated=0.250GB, MaxMemAllocated=0.500GB\n"
      "time (ms) | data: 250.00 | fwd: 500.00 | bwd: 1000.00 | comm: 0.00 | step: 125.00 | iter: 1875.00\n"
      "step=30, AvgSamplesPerSec=2.13, AvgMemAllocated=0.250GB, MaxMemAllocated=0.500GB\n"
      "time (ms) | data: 250.00 | fwd: 500.00 | bwd: 1000.00 | comm: 0.00 | step: 125.00 | iter: 1875.00\n");
}

TEST_CASE("step log printer: steps of two micro-batches on two ranks; rank 0 alone prints") {
  test::require_no_problems(2, [](dist::World& world) -> std::vector<std::string> {
    const std::string blocks =
        printed_blocks({.max_steps = 5, .accumulate = 2}, {.steps_per_print = 4}, &world);
    const std::string expected =
        world.rank() != 0
            ? ""
            : "step=4, AvgSamplesPerSec=2.21, AvgMemAllocated=0.250GB, MaxMemAllocated=0.500GB\n";
    if (blocks == expected) return {};  // 8 samples in 3.625 s
    return {blocks};
  });
  std::ostringstream out;
  CHECK(contains(message_of<ConfigError>([&] { StepLogPrinter p(out, {.steps_per_print = 0}); }),
                 "steps_per_print: expected 1 or more, got 0"));
}
