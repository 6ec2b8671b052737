#include "dist/train/callbacks/reports/learning_rate_monitor.h"

#include <doctest/doctest.h>

#include "optim/parameter_groups.h"
#include "tests/dist/train/callbacks/small_run.h"

using namespace small_run;

TEST_CASE("learning rate monitor: the rate of each step is the schedule's, or that of an epoch's last step") {
  const auto rates = [](int64_t every) {
    const auto recorder = std::make_shared<Recorder>();
    Points data;
    Classifier task;
    Trainer trainer({.max_epochs = 2,
                     .callbacks = {std::make_shared<LearningRateMonitor>(
                         LearningRateMonitorOptions{.every_steps = every})},
                     .monitors = {recorder}});
    trainer.fit(task, data);
    return recorder->series("lr");
  };
  CHECK(rates(1) == Series{{1, 0.5}, {2, 0.5}, {3, 0.25}, {4, 0.25}, {5, 0.125}, {6, 0.125}});
  CHECK(rates(4) == Series{{4, 0.25}});
  CHECK(rates(0) == Series{{3, 0.25}, {6, 0.125}});
}

TEST_CASE("learning rate monitor: each group of the optimizer has a value, on ranks with accumulation too") {
  struct Grouped : Classifier {
    OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
      const auto is_bias = [](const NamedParameter& p) { return p.name.ends_with("bias"); };
      const std::vector<optim::ParameterGroup<optim::SGDOptions>> groups{
          {parameters.where([&](const NamedParameter& p) { return !is_bias(p); }), {.lr = 0.5}},
          {parameters.where(is_bias), {.lr = 0.125}}};
      return {std::make_unique<optim::SGD>(groups)};
    }
  };
  test::require_no_problems(2, [](dist::World& world) -> std::vector<std::string> {
    const auto recorder = std::make_shared<Recorder>();
    const auto monitor = std::make_shared<LearningRateMonitor>(LearningRateMonitorOptions{.name = "rate"});
    Points data(&world);
    Grouped task;
    Trainer trainer(
        {.max_epochs = 2, .accumulate = 2, .callbacks = {monitor}, .monitors = {recorder}, .world = &world});
    trainer.fit(task, data);
    if (monitor->rates() != std::vector<double>{0.5, 0.125}) return {"other rates"};
    if (world.rank() != 0) return {};
    if (recorder->series("rate/0") != Series{{1, 0.5}, {2, 0.5}, {3, 0.5}}) return {"group 0"};
    if (recorder->series("rate/1") != Series{{1, 0.125}, {2, 0.125}, {3, 0.125}}) return {"group 1"};
    return {};
  });
  CHECK(contains(message_of<ConfigError>([] { LearningRateMonitor m({.every_steps = -1}); }),
                 "LearningRateMonitor: every_steps -1"));
}
