// The loops of a Trainer: the order of calls, losses, logged means, limits.
#include "dist/train/trainer/trainer.h"

#include <doctest/doctest.h>

#include <cmath>

#include "nn/materialize.h"
#include "optim/clip.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/train/trainer/traced_run.h"
#include "tests/support/error_text.h"

using namespace tessera;
using namespace tessera::training;
using namespace traced_run;

namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

}  // namespace

TEST_CASE("trainer: the order of all calls of a fit") {
  const auto trace = std::make_shared<Trace>();
  Points data;
  Classifier task;
  Trainer trainer({.max_epochs = 1, .accumulate = 2, .callbacks = {trace}});
  trainer.fit(task, data);
  CHECK(joined(data.calls) == "prepare_data\nsetup fit\n");
  // Three batches: the third one is no whole step, and the run ends before it.
  CHECK_MESSAGE(joined(trace->calls) ==
                    "setup\n"
                    "on_fit_start\n"
                    "on_train_start\n"
                    "on_train_epoch_start\n"
                    "on_before_train_batch\n"
                    "on_train_batch_start 0\n"
                    "on_before_backward\n"
                    "on_after_backward\n"
                    "on_train_batch_end 0\n"
                    "on_before_train_batch\n"
                    "on_train_batch_start 1\n"
                    "on_before_backward\n"
                    "on_after_backward\n"
                    "on_before_optimizer_step\n"
                    "on_train_batch_end 1\n"
                    "on_validation_start\n"
                    "on_validation_epoch_start\n"
                    "on_validation_batch_start 0\n"
                    "on_validation_batch_end 0\n"
                    "on_validation_batch_start 1\n"
                    "on_validation_batch_end 1\n"
                    "on_validation_batch_start 2\n"
                    "on_validation_batch_end 2\n"
                    "on_validation_epoch_end\n"
                    "on_validation_end\n"
                    "on_train_epoch_end\n"
                    "on_train_end\n"
                    "on_fit_end\n"
                    "teardown\n",
                joined(trace->calls));
}

TEST_CASE("trainer: the losses of a hand-written loop, to the bit; the schedule advances by step") {
  Points data;
  Classifier task, other;
  Trainer trainer({.max_epochs = 3, .gradient_clip = 0.5});
  trainer.fit(task, data);

  nn::materialize(other, cpu(), 42);
  optim::Adam adam(other.parameters(), {.lr = 1e-2});
  optim::Schedule rates = optim::step_decay({.step_size = 2, .gamma = 0.5});
  data::DataLoader loader(points(12), {.batch_size = 4, .shuffle = true, .seed = 42});
  std::vector<double> expected;
  for (int epoch = 0; epoch < 3; ++epoch)
    for (auto& [x, y] : loader) {
      rates.apply(adam);
      const Variable loss = nn::cross_entropy(other(x), y);
      expected.push_back(loss.value().item());
      loss.backward();
      optim::clip_grad_norm(other.parameters(), 0.5);
      adam.step();
      adam.zero_grad();
      rates.advance();
    }
  CHECK(task.losses == expected);
  CHECK(trainer.current_epoch() == 3);
}

TEST_CASE("trainer: logged means are over all samples of all batches and ranks") {
  const auto mean_of = [](Classifier& task, const std::shared_ptr<const data::Dataset>& dataset) {
    data::DataLoader loader(dataset, {.batch_size = dataset->size()});
    task.eval();
    double value = 0;
    for (auto& [x, y] : loader) value = nn::cross_entropy(task(x), y).value().item();
    return value;
  };
  Classifier one;
  nn::materialize(one, cpu(), 42);
  const double expected = mean_of(one, points(10, 1)), expected_test = mean_of(one, points(6, 2));
  for (const int ranks : {1, 2, 3})
    test::require_no_problems(ranks, [&](dist::World& world) {
      Points data;
      data.batch_size = 2;
      Classifier task;
      nn::materialize(task, cpu(), 42);
      Trainer trainer({.max_epochs = 1, .world = &world});
      std::vector<std::string> problems;
      const auto values = trainer.validate(task, data), tested = trainer.test(task, data);
      if (!(std::abs(values.at("val_loss") - expected) < 1e-6))
        problems.push_back(text("val_loss ", values.at("val_loss"), " for ", expected));
      if (!(std::abs(tested.at("test_loss") - expected_test) < 1e-6))
        problems.push_back(text("test_loss ", tested.at("test_loss"), " for ", expected_test));
      return problems;
    });
}

TEST_CASE("trainer: strategies by name on two ranks have the epoch losses of one rank") {
  Points whole;
  whole.batch_size = 4;
  Classifier alone;
  Trainer one({.max_epochs = 2});
  one.fit(alone, whole);
  const double expected = one.logged().at("train_loss"), expected_validation = one.logged().at("val_loss");
  for (const char* strategy :
       {"auto", "ddp", "fsdp", "deepspeed_stage_1", "deepspeed_stage_2", "deepspeed_stage_3"}) {
    CAPTURE(std::string(strategy));
    test::require_no_problems(2, [&](dist::World& world) {
      Points data;
      data.batch_size = 2;
      Classifier task;
      Trainer trainer({.max_epochs = 2, .strategy = strategy, .world = &world});
      trainer.fit(task, data);
      std::vector<std::string> problems;
      if (!(std::abs(trainer.logged().at("train_loss") - expected) < 1e-6))
        problems.push_back(text("train_loss ", trainer.logged().at("train_loss"), " for ", expected));
      if (!(std::abs(trainer.logged().at("val_loss") - expected_validation) < 1e-6))
        problems.push_back(text("val_loss ", trainer.logged().at("val_loss"), " for ", expected_validation));
      return problems;
    });
  }
}

TEST_CASE(
    "trainer: a last batch without samples for a rank has the gradients of the samples that there are") {
  const auto loss = [](dist::World* world, int64_t batch_size) {
    Points data;
    data.size = 10;
    data.batch_size = batch_size;
    Classifier task;
    Trainer trainer({.max_epochs = 3, .world = world});
    trainer.fit(task, data);
    return trainer.logged().at("train_loss");
  };
  const double expected = loss(nullptr, 6);
  test::require_no_problems(3, [&](dist::World& world) -> std::vector<std::string> {
    const double value = loss(&world, 2);
    if (std::abs(value - expected) < 1e-6) return {};
    return {text(value, " for ", expected)};
  });
}

TEST_CASE("trainer: limits of steps and batches, a dev run, overfitting, stop") {
  const auto steps_of = [](TrainerOptions options) {
    Points data;
    Classifier task;
    const auto trace = std::make_shared<Trace>();
    options.callbacks = {trace};
    Trainer trainer(std::move(options));
    trainer.fit(task, data);
    size_t validated = 0;
    for (const std::string& call : trace->calls) validated += call.starts_with("on_validation_batch_end");
    return std::pair(task.losses.size(), validated);
  };
  CHECK(steps_of({.max_epochs = 2}) == std::pair<size_t, size_t>{6, 6});
  CHECK(steps_of({.max_steps = 4}).first == 4);
  CHECK(steps_of({.max_steps = 4, .validate_every = 2}) == std::pair<size_t, size_t>{4, 6});
  CHECK(steps_of({.max_epochs = 2, .limit_train_batches = 2, .limit_val_batches = 1}) ==
        std::pair<size_t, size_t>{4, 2});
  CHECK(steps_of({.fast_dev_run = true}) == std::pair<size_t, size_t>{1, 1});
  CHECK(steps_of({.max_epochs = 3, .overfit_batches = 1}) == std::pair<size_t, size_t>{3, 3});
  struct Stop : Callback {
    void on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t index) override {
      if (index == 1) trainer.stop();
    }
  };
  Points data;
  Classifier task;
  Trainer trainer({.max_epochs = 5, .callbacks = {std::make_shared<Stop>()}});
  trainer.fit(task, data);
  CHECK(task.losses.size() == 2);
  CHECK(trainer.is_stopped());
}

TEST_CASE("trainer: predictions come batch by batch") {
  Points data;
  Classifier task;
  nn::materialize(task, cpu(), 42);
  Trainer trainer({.max_epochs = 1});
  const std::vector<Tensor> results = trainer.predict(task, data);
  REQUIRE(results.size() == 2);
  CHECK(results[0].shape() == Shape{4, 3});
  CHECK(results[1].shape() == Shape{2, 3});
  CHECK(!task.parameters().begin()->variable.grad().defined());
}

TEST_CASE("trainer: half precisions train, and the learning rate does not advance in a skipped step") {
  for (const PrecisionMode precision : {PrecisionMode::bf16, PrecisionMode::f16}) {
    Points data;
    Classifier task;
    Trainer trainer({.max_epochs = 10, .precision = precision});
    trainer.fit(task, data);
    CHECK(task.losses.back() < task.losses.front());
    // Afterwards the model still computes in this precision, of f32 batches; results are f32.
    const double last = trainer.logged().at("val_loss");
    CHECK(trainer.validate(task, data).at("val_loss") == last);
    for (const Tensor& result : trainer.predict(task, data)) CHECK(result.dtype() == f32);
  }
}

TEST_CASE("logged values: reductions, and the same name with another one") {
  LoggedValues values;
  values.add("mean", 1, 3, {});
  values.add("mean", 5, 1, {});
  values.add("plain", 1, 3, {.is_weighted = false});
  values.add("plain", 5, 1, {.is_weighted = false});
  values.add("targets", 1, 3, {.weight = 1});
  values.add("targets", 5, 1, {.weight = 3});
  for (const double value : {3.0, -2.0, 7.0}) {
    values.add("sum", value, 1, {.reduction = LogReduction::sum});
    values.add("min", value, 1, {.reduction = LogReduction::min});
    values.add("max", value, 1, {.reduction = LogReduction::max});
  }
  const auto result = values.reduce(nullptr);
  CHECK(result.at("mean") == 2);
  CHECK(result.at("plain") == 3);
  CHECK(result.at("targets") == 4);
  CHECK(result.at("sum") == 8);
  CHECK(result.at("min") == -2);
  CHECK(result.at("max") == 7);
  CHECK(values.newest().at("mean") == 5);
  CHECK(contains(message_of<ConfigError>([&] { values.add("sum", 1, 1, {}); }), "another reduction"));
  CHECK(contains(message_of<ConfigError>([&] { values.add("", 1, 1, {}); }), "expected a name"));
}
