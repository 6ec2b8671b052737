#include "dist/train/callbacks/prints/flops_printer.h"

#include <doctest/doctest.h>

#include <sstream>

#include "tests/dist/train/callbacks/small_run.h"

using namespace small_run;

namespace {

/// Forward FLOPs of `samples` samples: two products, a multiply-add counted twice.
constexpr double forward_flops(int64_t samples) {
  return 2.0 * static_cast<double>(samples * (4 * 6 + 6 * 3));
}

}  // namespace

TEST_CASE("flops printer: the report of the chosen step, printed once and given to monitors") {
  std::ostringstream out;
  const auto recorder = std::make_shared<Recorder>();
  const auto printer = std::make_shared<FlopsPrinter>(
      out, FlopsPrinterOptions{.profile = {.enabled = true, .profile_step = 1}});
  Points data(nullptr, 16);  // 4 batches: no validation within a step
  Classifier task;
  Trainer trainer({.max_epochs = 2, .accumulate = 2, .callbacks = {printer}, .monitors = {recorder}});
  trainer.fit(task, data);
  REQUIRE(printer->profile().has_value());
  CHECK(printer->profile()->step == 1);
  CHECK(printer->profile()->samples == 8);  // of its two micro-batches
  CHECK(static_cast<double>(printer->profile()->root.forward.flops) == forward_flops(8));
  CHECK(contains(out.str(), "Profile Summary at step 1:"));
  CHECK(recorder->texts.at("flops_profile") == out.str());
}

TEST_CASE("flops printer: rank 0 alone profiles; an exception in the step, and a run that ends before it") {
  test::require_no_problems(2, [](dist::World& world) -> std::vector<std::string> {
    std::ostringstream out;
    const auto printer = std::make_shared<FlopsPrinter>(out);
    Points data(&world);
    Classifier task;
    Trainer trainer({.max_epochs = 1, .callbacks = {printer}, .world = &world});
    trainer.fit(task, data);
    if (printer->profile().has_value() != (world.rank() == 0)) return {"profiled"};
    if (out.str().empty() != (world.rank() != 0)) return {"printed"};
    if (world.rank() == 0 && static_cast<double>(printer->profile()->root.forward.flops) != forward_flops(2))
      return {text("FLOPs ", printer->profile()->root.forward.flops)};
    return {};
  });
  struct Thrower : Callback {
    void on_after_backward(Trainer& trainer, Task&) override {
      if (trainer.global_step() == 1) throw DataError("stop");
    }
  };
  std::ostringstream out;
  const auto printer = std::make_shared<FlopsPrinter>(out);
  for (int i = 0; i < 2; ++i) {  // no profiler stays open
    Points data;
    Classifier task;
    Trainer trainer({.max_epochs = 1, .callbacks = {printer, std::make_shared<Thrower>()}});
    CHECK(message_of<DataError>([&] { trainer.fit(task, data); }) == "stop");
  }
  Points data;
  Classifier task;
  Trainer trainer({.max_steps = 1, .callbacks = {printer}});
  trainer.fit(task, data);
  CHECK(!printer->profile().has_value());
  CHECK(out.str().empty());
  CHECK(contains(message_of<ConfigError>(
                     [&] { FlopsPrinter p(out, {.profile = {.enabled = true, .profile_step = -1}}); }),
                 "profile_step"));
}
