#include "dist/train/callbacks/reports/memory_monitor.h"

#include <doctest/doctest.h>

#include "tests/dist/train/callbacks/small_run.h"

using namespace small_run;

namespace {

/// Holds 1000 bytes more after each step, and 5000 for a moment in the second.
struct Holder : Callback {
  intrusive_ptr<MemoryAccount> account;
  explicit Holder(intrusive_ptr<MemoryAccount> of) : account(std::move(of)) {}
  void on_train_batch_start(Trainer&, Task&, const data::Batch&, int64_t index) override {
    if (index == 1) {
      account->add(MemoryCategory::activation, 5000);
      account->remove(MemoryCategory::activation, 5000);
    }
    account->add(MemoryCategory::optimizer_state, 1000);
  }
};

}  // namespace

TEST_CASE("memory monitor: current, maximum and average bytes are those of a known account, by category") {
  const auto account = make_intrusive<MemoryAccount>();
  account->add(MemoryCategory::parameter, 64);
  account->add(MemoryCategory::other, 1 << 20);  // a peak before the training
  account->remove(MemoryCategory::other, 1 << 20);
  const auto recorder = std::make_shared<Recorder>();
  const auto memory =
      std::make_shared<MemoryMonitor>(MemoryMonitorOptions{.every_steps = 3, .account = account});
  Points data;
  Classifier task;
  Trainer trainer(
      {.max_epochs = 1, .callbacks = {std::make_shared<Holder>(account), memory}, .monitors = {recorder}});
  trainer.fit(task, data);
  CHECK(recorder->series("memory/current") == Series{{3, 3064}});
  CHECK(recorder->series("memory/maximum") == Series{{3, 6064}});
  CHECK(recorder->series("memory/average") == Series{{3, 2064}});
  CHECK(recorder->series("memory/parameter") == Series{{3, 64}});
  CHECK(recorder->series("memory/optimizer_state") == Series{{3, 3000}});
  CHECK(recorder->series("memory/activation") == Series{{3, 0}});
  CHECK(memory->maximum() == 6064);
  CHECK(memory->current() == 3064);
  CHECK(memory->average() == 2064);
}

TEST_CASE("memory monitor: by default the account of each rank, with the parameters that it holds") {
  test::require_no_problems(2, [](dist::World& world) -> std::vector<std::string> {
    const auto memory =
        std::make_shared<MemoryMonitor>(MemoryMonitorOptions{.every_steps = 0, .categories = false});
    const auto recorder = std::make_shared<Recorder>();
    Points data(&world);
    Classifier task;
    Trainer trainer({.max_epochs = 1, .callbacks = {memory}, .monitors = {recorder}, .world = &world});
    trainer.fit(task, data);
    constexpr int64_t parameter_bytes = (4 * 6 + 6 + 6 * 3 + 3) * 4;
    std::vector<std::string> problems;
    if (memory->current() < parameter_bytes) problems.push_back(text("current ", memory->current()));
    if (static_cast<double>(memory->maximum()) < memory->average()) problems.push_back("average");
    if (memory->maximum() < memory->current()) problems.push_back("maximum");
    if (world.rank() == 0 && recorder->series("memory/maximum").size() != 1) problems.push_back("reports");
    if (!recorder->series("memory/parameter").empty()) problems.push_back("categories");
    return problems;
  });
  CHECK(contains(message_of<ConfigError>([] { MemoryMonitor m({.every_steps = -1}); }), "every_steps -1"));
}
