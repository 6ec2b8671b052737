// Errors of a Trainer: options, tasks and data that lack something, and exceptions of callbacks.
#include <doctest/doctest.h>

#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/train/trainer/traced_run.h"
#include "tests/support/error_text.h"

using namespace tessera;
using namespace tessera::training;
using namespace traced_run;

namespace {

template <class E>
std::string refusal(TrainerOptions options) {
  return message_of<E>([&] { Trainer trainer(std::move(options)); });
}

}  // namespace

TEST_CASE("trainer: bad options are errors that name them") {
  CHECK(contains(refusal<ConfigError>({}), "expected max_epochs or max_steps"));
  CHECK(refusal<ConfigError>({.max_epochs = -2}) == "Trainer: max_epochs -2: expected -1 or more");
  CHECK(refusal<ConfigError>({.max_epochs = 1, .accumulate = 0}) ==
        "Trainer: accumulate 0: expected 1 or more");
  CHECK(refusal<ConfigError>({.max_epochs = 1, .limit_val_batches = -2}) ==
        "Trainer: limit_val_batches -2: expected -1 or more");
  CHECK(refusal<ConfigError>({.max_epochs = 1, .limit_test_batches = -2}) ==
        "Trainer: limit_test_batches -2: expected -1 or more");
  CHECK(refusal<ConfigError>({.max_epochs = 1, .limit_predict_batches = -7}) ==
        "Trainer: limit_predict_batches -7: expected -1 or more");
  CHECK(contains(refusal<ConfigError>({.max_epochs = 1, .strategy = "dpp"}), "deepspeed_stage_0"));
  CHECK(contains(refusal<ConfigError>({.max_epochs = 1, .gradient_clip = -1}), "gradient_clip"));
  CHECK(contains(refusal<ConfigError>({.max_epochs = 1, .callbacks = {nullptr}}), "null pointer"));
}

TEST_CASE("trainer: a task or data without what is needed, and exceptions of callbacks") {
  struct Nothing : TaskOf<Nothing> {
    nn::Linear& out = add<nn::Linear>("out", {.in = 4, .out = 3});
    Variable forward(const Variable& x) { return out(x); }
  };
  struct NoStep : Nothing {
    OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
      return {std::make_unique<optim::Adam>(parameters)};
    }
  };
  struct NoData : DataModule {};
  Points data;
  NoData no_data;
  Nothing nothing;
  NoStep no_step;
  Classifier task;
  const auto fit_error = [&](Task& which, DataModule& module) {
    return message_of<ConfigError>([&] { Trainer({.max_epochs = 1}).fit(which, module); });
  };
  CHECK(contains(fit_error(nothing, data), "Task::configure_optimizers: expected the task to have it"));
  CHECK(contains(fit_error(no_step, data), "Task::training_step: expected the task to have it"));
  CHECK(contains(fit_error(task, no_data), "expected a training loader"));
  CHECK(contains(message_of<ConfigError>([&] { task.log("x", 1.0); }), "expected a trainer"));

  struct Thrower : Trace {
    void on_after_backward(Trainer&, Task&) override { throw DataError("the callback's own"); }
  };
  const auto thrower = std::make_shared<Thrower>();
  Classifier other;
  Trainer trainer({.max_epochs = 1, .callbacks = {thrower}});
  CHECK(message_of<DataError>([&] { trainer.fit(other, data); }) == "the callback's own");
  CHECK(thrower->calls.back() == "teardown");
  CHECK(thrower->calls[thrower->calls.size() - 2] == "on_exception: the callback's own");
  CHECK(contains(message_of<ConfigError>([&] { trainer.engine(); }), "expected a fit that runs"));
}

TEST_CASE("trainer: a name that some ranks alone log is an error on all ranks, naming one that lacks it") {
  struct Uneven : Classifier {
    Variable training_step(const data::Batch& batch, int64_t index) override {
      if (trainer().rank() == 1) log("extra", 1.0);
      return Classifier::training_step(batch, index);
    }
  };
  test::require_no_problems(3, [&](dist::World& world) {
    Points data;
    data.batch_size = 2;
    Uneven task;
    Trainer trainer({.max_epochs = 1, .world = &world});
    std::vector<std::string> problems;
    const std::string message = message_of<ConfigError>([&] { trainer.fit(task, data); });
    if (message != "log: expected the same names on all ranks, got 'extra' on rank 1 and not on rank 0")
      problems.push_back(message);
    return problems;
  });
}

TEST_CASE(
    "trainer: what on_exception throws is logged; the first exception leaves, and all callbacks are called") {
  struct Faulty : Callback {
    void on_after_backward(Trainer&, Task&) override { throw DataError("the first one"); }
    void on_exception(Trainer&, Task&, const std::exception&) override { throw ConfigError("another one"); }
  };
  const auto trace = std::make_shared<Trace>();
  std::string logged;
  Points data;
  Classifier task;
  Trainer trainer({.max_epochs = 1,
                   .callbacks = {std::make_shared<Faulty>(), trace},
                   .log = Logger([&](const LogRecord& record) {
                     logged += text(record.component, ": ", record.message);
                   })});
  CHECK(message_of<DataError>([&] { trainer.fit(task, data); }) == "the first one");
  CHECK(trace->calls.back() == "teardown");
  CHECK(trace->calls[trace->calls.size() - 2] == "on_exception: the first one");
  CHECK(logged == "train.callback: on_exception: another one");
}

TEST_CASE("trainer: a training step without a loss is an error that names it") {
  struct NoLoss : Classifier {
    Variable training_step(const data::Batch&, int64_t) override { return {}; }
  };
  Points data;
  NoLoss task;
  CHECK(contains(message_of<ConfigError>([&] { Trainer({.max_epochs = 1}).fit(task, data); }),
                 "Task::training_step: expected the loss of the batch, got an undefined Variable"));
}

TEST_CASE("trainer: a second fit of a task that is sharded or rounded is an error that says what to do") {
  Points data;
  Classifier plain, rounded;
  Trainer({.max_epochs = 1}).fit(plain, data);
  Trainer({.max_epochs = 1}).fit(plain, data);  // goes on with its weights
  Trainer({.max_epochs = 1, .precision = PrecisionMode::bf16}).fit(rounded, data);
  for (const PrecisionMode precision : {PrecisionMode::f32, PrecisionMode::bf16})
    CHECK(message_of<ConfigError>(
              [&] { Trainer({.max_epochs = 1, .precision = precision}).fit(rounded, data); }) ==
          "Trainer::fit: expected a task of its own, got one that is in mixed precision already, as "
          "after a fit; to go on, give a new task and `resume` or `init_from`");
  test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
    Points own;
    own.batch_size = 2;
    Classifier task;
    Trainer({.max_epochs = 1, .strategy = "fsdp", .world = &world}).fit(task, own);
    const std::string message = message_of<ConfigError>(
        [&] { Trainer({.max_epochs = 1, .strategy = "fsdp", .world = &world}).fit(task, own); });
    if (contains(message, "got one that is sharded already, as after a fit")) return {};
    return {message};
  });
}

TEST_CASE("trainer: a name with another reduction on another rank is an error on all ranks that names it") {
  test::require_no_problems(2, [](dist::World& world) -> std::vector<std::string> {
    LoggedValues values;
    values.add("a", 1, 1, {});
    values.add("b", 1, 1, {.reduction = world.rank() == 0 ? LogReduction::min : LogReduction::sum});
    const std::string message = message_of<ConfigError>([&] { values.reduce(&world.communicator()); });
    if (message ==
        "log: expected the same reduction of 'b' on all ranks, got min on rank 0 and sum on rank 1")
      return {};
    return {message};
  });
}
