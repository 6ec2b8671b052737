#include "dist/train/trainer/trainer.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/elementwise/unary.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/rules/adam.h"
#include "optim/schedules/decay.h"
#include "tensor/error.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"

using namespace tessera;
using namespace tessera::training;

namespace {

std::shared_ptr<const data::Dataset> points(int64_t n, double shift = 0) {
  Tensor x = Tensor::empty({n, 4}, f32), y = Tensor::empty({n}, i64);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = std::sin(static_cast<float>(i * 3) + static_cast<float>(shift));
  for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = i * i % 3;
  return std::make_shared<data::TensorDataset>(x, y);
}

struct Points : DataModule {
  int64_t batch_size = 4, size = 12;
  std::vector<std::string> calls;
  void prepare_data() override { calls.push_back("prepare_data"); }
  void setup(Stage stage) override {
    constexpr const char* names[] = {"fit", "validate", "test", "predict"};
    calls.push_back(text("setup ", names[static_cast<int>(stage)]));
  }
  std::optional<LoaderSpec> train_dataloader() override {
    return LoaderSpec{points(size), {.batch_size = batch_size, .shuffle = true}};
  }
  std::optional<LoaderSpec> val_dataloader() override {
    return LoaderSpec{points(10, 1), {.batch_size = batch_size}};
  }
  std::optional<LoaderSpec> test_dataloader() override {
    return LoaderSpec{points(6, 2), {.batch_size = batch_size}};
  }
  std::optional<LoaderSpec> predict_dataloader() override {
    return LoaderSpec{points(6, 2), {.batch_size = batch_size}};
  }
};

struct Classifier : TaskOf<Classifier> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 4, .out = 6});
  nn::Linear& second = add<nn::Linear>("second", {.in = 6, .out = 3});
  std::vector<double> losses;
  Variable forward(const Variable& x) { return second(tanh(first(x))); }

  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    losses.push_back(loss.value().item());
    log("train_loss", loss);
    return loss;
  }
  void validation_step(const data::Batch& batch, int64_t) override {
    log("val_loss", nn::cross_entropy((*this)(batch.x), batch.y));
  }
  void test_step(const data::Batch& batch, int64_t) override {
    log("test_loss", nn::cross_entropy((*this)(batch.x), batch.y));
  }
  Tensor predict_step(const data::Batch& batch, int64_t) override { return (*this)(batch.x).value(); }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = 1e-2}),
            optim::step_decay({.step_size = 2, .gamma = 0.5})};
  }
};

/// Records the calls of a run.
struct Trace : Callback {
  std::vector<std::string> calls;
#define TRACED(point)                    \
  void point(Trainer&, Task&) override { \
    calls.push_back(#point);             \
  }
#define TRACED_BATCH(point)                                                 \
  void point(Trainer&, Task&, const data::Batch&, int64_t index) override { \
    calls.push_back(text(#point, " ", index));                              \
  }
  TRACED(on_fit_start)
  TRACED(on_fit_end)
  TRACED(on_train_start)
  TRACED(on_train_end)
  TRACED(on_train_epoch_start)
  TRACED(on_before_train_batch)
  TRACED(on_train_epoch_end)
  TRACED(on_after_backward)
  TRACED(on_before_optimizer_step)
  TRACED(on_validation_start)
  TRACED(on_validation_end)
  TRACED(on_validation_epoch_start)
  TRACED(on_validation_epoch_end)
  TRACED(on_test_epoch_start)
  TRACED(on_test_epoch_end)
  TRACED(on_predict_epoch_start)
  TRACED(on_predict_epoch_end)
  TRACED_BATCH(on_predict_batch_start)
  TRACED_BATCH(on_predict_batch_end)
  void setup(Trainer&, Task&, Stage) override {
    calls.push_back("setup");
  }
  void teardown(Trainer&, Task&, Stage) override {
    calls.push_back("teardown");
  }
  TRACED(on_test_start)
  TRACED(on_test_end)
  TRACED(on_predict_start)
  TRACED(on_predict_end)
  TRACED_BATCH(on_train_batch_start)
  TRACED_BATCH(on_train_batch_end)
  TRACED_BATCH(on_validation_batch_start)
  TRACED_BATCH(on_validation_batch_end)
  TRACED_BATCH(on_test_batch_start)
  TRACED_BATCH(on_test_batch_end)
#undef TRACED
#undef TRACED_BATCH
  void on_before_backward(Trainer&, Task&, const Variable&) override {
    calls.push_back("on_before_backward");
  }
  void on_exception(Trainer&, Task&, const std::exception& error) override {
    calls.push_back(text("on_exception: ", error.what()));
  }
};

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

template <class E>
std::string refusal(TrainerOptions options) {
  return message_of<E>([&] { Trainer trainer(std::move(options)); });
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
