#include "dist/train/profile/step_log.h"

#include <doctest/doctest.h>

#include "tensor/error.h"
#include "tests/support/error_text.h"

using namespace tessera;
using training::StepPart;
using training::WallClock;

namespace {

/// A clock that a test moves.
struct ManualClock {
  double now = 100;
  training::SecondsClock read() {
    return [this] { return now; };
  }
};

constexpr int64_t GiB = int64_t{1} << 30;

}  // namespace

TEST_CASE("wall clock: the times of each part, and means over the window") {
  ManualClock time;
  WallClock clock({.window = 2, .clock = time.read()});
  CHECK(clock.mean().total == 0);
  CHECK(clock.last().total == 0);
  for (const double scale : {100.0, 1.0, 3.0}) {  // the first is outside the window at the end
    {
      const auto timing = clock.measure(StepPart::forward);
      time.now += 2 * scale;
    }
    clock.start(StepPart::backward);
    time.now += 3 * scale;
    {
      const auto overlapping = clock.measure(StepPart::communication);
      time.now += scale;
    }
    clock.stop(StepPart::backward);
    for (int i = 0; i < 2; ++i) {
      const auto timing = clock.measure(StepPart::optimizer);
      time.now += 0.5 * scale;
    }
    clock.end_step();
  }
  CHECK(clock.steps() == 3);
  CHECK(clock.last().total == 21);
  const training::StepTimes mean = clock.mean();
  CHECK(mean.of(StepPart::data) == 0);
  CHECK(mean.of(StepPart::forward) == 4);
  CHECK(mean.of(StepPart::backward) == 8);
  CHECK(mean.of(StepPart::communication) == 2);
  CHECK(mean.of(StepPart::optimizer) == 2);
  CHECK(mean.total == 14);
  // Forward, backward and optimizer are the whole step; communication is within backward.
  CHECK(mean.of(StepPart::forward) + mean.of(StepPart::backward) + mean.of(StepPart::optimizer) ==
        mean.total);
  CHECK(clock.breakdown() ==
        "time (ms) | data: 0.00 | fwd: 4000.00 | bwd: 8000.00 | comm: 2000.00 | step: 2000.00 | iter: "
        "14000.00");
}

TEST_CASE("wall clock: a part that is started twice, stopped alone or left open is an error that names it") {
  ManualClock time;
  WallClock clock({.clock = time.read()});
  clock.start(StepPart::forward);
  CHECK(message_of<ValueError>([&] { clock.start(StepPart::forward); }) ==
        "WallClock::start: fwd is measured already: stop it first");
  CHECK(contains(message_of<ValueError>([&] { clock.end_step(); }), "fwd is still measured"));
  clock.stop(StepPart::forward);
  CHECK(contains(message_of<ValueError>([&] { clock.stop(StepPart::forward); }), "fwd was not started"));
  CHECK_THROWS_AS(WallClock({.window = 0}), ConfigError);
  CHECK_THROWS_AS(WallClock({.clock = nullptr}), ConfigError);
}

TEST_CASE("wall clock: an exception in a measured part ends its measurement") {
  ManualClock time;
  WallClock clock({.clock = time.read()});
  try {
    const auto timing = clock.measure(StepPart::data);
    time.now += 1;
    throw 0;
  } catch (int) {
  }
  clock.end_step();
  CHECK(clock.last().of(StepPart::data) == 1);
}

TEST_CASE("step log: 30 steps with 10 per print are 3 blocks, with speed, average and maximum memory") {
  ManualClock time;
  const auto account = make_intrusive<MemoryAccount>();
  training::StepLog log({.steps_per_print = 10, .clock = time.read(), .account = account});
  std::vector<std::string> blocks;
  account->add(MemoryCategory::parameter, GiB / 4);
  for (int step = 1; step <= 30; ++step) {
    account->add(MemoryCategory::activation, GiB);  // held during the step alone
    time.now += 0.5;
    account->remove(MemoryCategory::activation, GiB);
    if (step == 16) account->add(MemoryCategory::gradient, GiB / 2);  // at the end of 5 of 10 steps
    if (const auto block = log.end_step(step <= 10 ? 4 : 8)) blocks.push_back(*block);
    CHECK(log.metrics().has_value() == (step >= 10));
    if (step == 20) {
      CHECK(log.metrics()->average_bytes == 0.5 * GiB);
      CHECK(log.metrics()->maximum_bytes == GiB / 4 + GiB / 2 + GiB);
      CHECK(log.metrics()->samples == 80);
      CHECK(log.metrics()->seconds == 5);
      CHECK(static_cast<double>(log.metrics()->maximum_bytes) >= log.metrics()->average_bytes);
    }
  }
  REQUIRE(blocks.size() == 3);
  CHECK(blocks[0] == "step=10, AvgSamplesPerSec=8.00, AvgMemAllocated=0.250GB, MaxMemAllocated=1.250GB\n");
  CHECK(blocks[1] == "step=20, AvgSamplesPerSec=16.00, AvgMemAllocated=0.500GB, MaxMemAllocated=1.750GB\n");
  CHECK(blocks[2] == "step=30, AvgSamplesPerSec=16.00, AvgMemAllocated=0.750GB, MaxMemAllocated=1.750GB\n");
}

TEST_CASE("step log: wall_clock_breakdown adds the line of times, of the interval alone") {
  ManualClock time;
  training::StepLog log({.steps_per_print = 2,
                         .wall_clock_breakdown = true,
                         .clock = time.read(),
                         .account = make_intrusive<MemoryAccount>()});
  std::string last;
  for (int step = 0; step < 4; ++step) {
    {
      const auto timing = log.clock().measure(StepPart::forward);
      time.now += step < 2 ? 1 : 0.25;
    }
    if (const auto block = log.end_step(1)) last = *block;
  }
  CHECK(last ==
        "step=4, AvgSamplesPerSec=4.00, AvgMemAllocated=0.000GB, MaxMemAllocated=0.000GB\n"
        "time (ms) | data: 0.00 | fwd: 250.00 | bwd: 0.00 | comm: 0.00 | step: 0.00 | iter: 250.00\n");
}

TEST_CASE("step log: no time is no speed; the account is the thread's by default; bad options are errors") {
  ManualClock time;
  const auto account = make_intrusive<MemoryAccount>();
  const AccountScope scope(account);
  account->add(MemoryCategory::other, GiB);
  training::StepLog log({.steps_per_print = 1, .clock = time.read()});
  CHECK(*log.end_step(5) ==
        "step=1, AvgSamplesPerSec=0.00, AvgMemAllocated=1.000GB, MaxMemAllocated=1.000GB\n");
  CHECK_THROWS_AS(log.end_step(-1), ValueError);
  CHECK_THROWS_AS(training::StepLog({.steps_per_print = 0}), ConfigError);
}

TEST_CASE("step log: the lines of a training loop") {
  CHECK(training::loss_line(2, 3, 40, 0.6931471) == "[2/3; 40] loss: 0.69315");
  CHECK(training::valid_loss_line(2, 3, 40, 12.5) == "[2/3; 40] valid loss: 12.50000");
  CHECK(training::finished_line(12.5) == "Finished training after 12.5 seconds.");
  CHECK(training::test_loss_line(0.25) == "Final test loss: 0.25000");
  CHECK(training::epoch_line(2, 0.6931471) == "Epoch: 2, Loss: 0.693147");
}
