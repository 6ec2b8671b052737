// Schedules of a Trainer by step, by epoch, by group and by a logged value, against PyTorch's rates.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/elementwise/binary.h"
#include "dist/train/callbacks/model_checkpoint.h"
#include "dist/train/trainer/trainer.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "optim/rules/sgd.h"
#include "optim/schedules/cosine.h"
#include "optim/schedules/decay.h"
#include "tensor/functions.h"
#include "tensor/io/safetensors.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

/// Batches of 2 over all ranks: `size / 2` of them an epoch, and one of validation.
struct Points : DataModule {
  explicit Points(int64_t count, const dist::World* world = nullptr, bool with_validation = true)
      : size(count), batch_size(2 / (world ? world->size() : 1)), has_validation(with_validation) {}
  int64_t size, batch_size;
  bool has_validation;
  static std::shared_ptr<const data::Dataset> points(int64_t n) {
    Tensor x = Tensor::empty({n, 3}, f32), y = Tensor::empty({n}, i64);
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 3));
    for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = i % 2;
    return std::make_shared<data::TensorDataset>(x, y);
  }
  std::optional<LoaderSpec> train_dataloader() override {
    return LoaderSpec{points(size), {.batch_size = batch_size}};
  }
  std::optional<LoaderSpec> val_dataloader() override {
    if (!has_validation) return std::nullopt;
    return LoaderSpec{points(2), {.batch_size = batch_size}};
  }
};

/// The optimizer of PyTorch's recorded rates: two groups, with the rates 0.1 and 0.02.
std::unique_ptr<optim::SGD> two_groups(const ParameterList& parameters) {
  const auto is_bias = [](const NamedParameter& p) { return p.name.ends_with("bias"); };
  const std::vector<optim::ParameterGroup<optim::SGDOptions>> groups{
      {parameters.where([&](const NamedParameter& p) { return !is_bias(p); }), {.lr = 0.1}},
      {parameters.where(is_bias), {.lr = 0.02}}};
  return std::make_unique<optim::SGD>(groups);
}

using Rates = std::vector<std::vector<double>>;

/// Its validations log `metric` of their number, from 0, as "score"; its batches "train_score".
struct Classifier : TaskOf<Classifier> {
  nn::Linear& out = add<nn::Linear>("out", {.in = 3, .out = 2});
  std::function<OptimizerSetup(const ParameterList&)> setup;
  std::function<double(int64_t)> metric = [](int64_t) { return 1.0; };
  int64_t steps_of_validation = 1;
  Rates rates;  // of each batch
  std::vector<double> losses;
  Variable forward(const Variable& x) { return out(x); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    rates.push_back(trainer().engine().get_lr());
    losses.push_back(loss.value().item());
    log("train_score", metric(trainer().current_epoch()));
    log("train_loss", loss);
    return loss;
  }
  void validation_step(const data::Batch&, int64_t) override {
    log("score", metric(trainer().global_step() / steps_of_validation - 1));
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override { return setup(parameters); }
};

using Setup = std::function<OptimizerSetup(const ParameterList&)>;

/// The rates of each batch of a run.
Rates rates_of(const Setup& setup, int64_t batches, TrainerOptions options,
               std::function<double(int64_t)> metric = {}) {
  Points data(2 * batches);
  Classifier task;
  task.setup = setup;
  task.steps_of_validation = options.validate_every > 0 ? options.validate_every : batches;
  if (metric) task.metric = std::move(metric);
  Trainer trainer(std::move(options));
  trainer.fit(task, data);
  return task.rates;
}

/// PyTorch's rates, recorded by tests/optim/golden_cases/schedules.py.
const io::SafetensorsFile& goldens() {
  static const io::SafetensorsFile file(std::string(TESSERA_TEST_DATA_DIR) +
                                        "/optim/goldens/group_schedules.safetensors");
  return file;
}

double golden_metric(int64_t i) {
  static const Tensor metrics = goldens().read("metrics");
  return metrics.data<double>()[i];
}

/// Whether batch k has the recorded rates of k / batches.
bool are_golden(const Rates& rates, const char* name, size_t batches) {
  const Tensor expected = goldens().read(name);
  if (rates.size() > 100 * batches) return false;
  for (size_t k = 0; k < rates.size(); ++k)
    for (size_t group = 0; group < 2; ++group) {
      const double rate = expected.data<double>()[2 * (k / batches) + group];
      if (std::abs(rates[k].at(group) - rate) > 1e-12 * rate + 1e-17) return false;
    }
  return true;
}

Setup with_plateau(std::string monitor, optim::ReduceLROnPlateauOptions options) {
  return [=](const ParameterList& parameters) {
    return OptimizerSetup{.optimizer = two_groups(parameters),
                          .plateau = PlateauSchedule{.monitor = monitor, .options = options}};
  };
}

}  // namespace

TEST_CASE("schedules of a trainer: StepLR falls once an epoch, or once a step") {
  const auto rates = [](ScheduleInterval interval) {
    const Rates all = rates_of(
        [&](const ParameterList& parameters) {
          return OptimizerSetup{std::make_unique<optim::SGD>(parameters, 2e-4),
                                optim::step_decay({.step_size = 1, .gamma = 0.6}), interval};
        },
        3, {.max_epochs = 5});
    std::vector<double> flat;
    for (const std::vector<double>& each : all) flat.push_back(each.at(0));
    return flat;
  };
  const double by_epoch[] = {2e-4, 1.2e-4, 7.2e-5, 4.32e-5, 2.592e-5};
  const std::vector<double> epochs = rates(ScheduleInterval::epoch), steps = rates(ScheduleInterval::step);
  REQUIRE(epochs.size() == 15);
  for (size_t k = 0; k < 15; ++k) CHECK(epochs[k] == doctest::Approx(by_epoch[k / 3]).epsilon(1e-12));
  for (size_t k = 0; k < 5; ++k) CHECK(steps[k] == doctest::Approx(by_epoch[k]).epsilon(1e-12));
  CHECK(steps[14] == doctest::Approx(2e-4 * std::pow(0.6, 14)));
}

TEST_CASE("schedules of a trainer: the rates of 100 epochs or steps, and of single groups, are PyTorch's") {
  const auto first = [](int64_t step) { return std::pow(0.9, step); };
  const auto second = [](int64_t step) { return 1.0 / (1.0 + static_cast<double>(step)); };
  const auto by_group = [&](ScheduleInterval interval) -> Setup {
    return [=](const ParameterList& parameters) {
      return OptimizerSetup{.optimizer = two_groups(parameters),
                            .interval = interval,
                            .group_schedules = {optim::lambda(first), optim::lambda(second)}};
    };
  };
  const auto by_epoch = [](const optim::Schedule& schedule) -> Setup {
    return [=](const ParameterList& parameters) {
      return OptimizerSetup{two_groups(parameters), schedule, ScheduleInterval::epoch};
    };
  };
  CHECK(are_golden(rates_of(by_group(ScheduleInterval::step), 4, {.max_steps = 100}), "lambda_per_group", 1));
  CHECK(are_golden(rates_of(by_group(ScheduleInterval::step), 4, {.max_steps = 50, .accumulate = 2}),
                   "lambda_per_group", 2));
  CHECK(
      are_golden(rates_of(by_group(ScheduleInterval::epoch), 2, {.max_epochs = 100}), "lambda_per_group", 2));
  CHECK(are_golden(
      rates_of(by_epoch(optim::step_decay({.step_size = 7, .gamma = 0.8})), 2, {.max_epochs = 100}),
      "step_decay", 2));
  CHECK(are_golden(
      rates_of(by_epoch(optim::cosine_annealing({.t_max = 30, .eta_min = 1e-3})), 2, {.max_epochs = 100}),
      "cosine_annealing", 2));
}

TEST_CASE("schedules of a trainer: ReduceLROnPlateau by a value of validation or of training is PyTorch's") {
  const optim::ReduceLROnPlateauOptions one{.factor = 0.5, .patience = 3, .min_lr = 1e-3},
      two{.factor = 0.6, .patience = 1, .cooldown = 2, .min_lr = {1e-3, 5e-3}};
  for (const char* monitor : {"score", "train_score"}) {
    CAPTURE(monitor);
    const Rates rates = rates_of(with_plateau(monitor, one), 2, {.max_epochs = 100}, golden_metric);
    CHECK(rates.size() == 200);
    CHECK(are_golden(rates, "plateau", 2));
    CHECK(are_golden(rates_of(with_plateau(monitor, two), 2, {.max_epochs = 100}, golden_metric),
                     "plateau_min_lrs", 2));
  }
  // Validations within epochs of 7 batches.
  const Rates within =
      rates_of(with_plateau("score", one), 7, {.max_steps = 200, .validate_every = 2}, golden_metric);
  CHECK(are_golden(within, "plateau", 2));
}

TEST_CASE("schedules of a trainer: a run resumed after any step has the same rates and losses") {
  // 5 batches an epoch; values that never improve, so that every second one reduces the rates.
  struct Result {
    Rates rates;
    std::vector<double> losses;
  };
  const auto run = [](const Setup& setup, int64_t steps, const std::string& folder, const std::string& resume,
                      dist::World* world, int64_t validate_every) {
    Points data(10, world);
    Classifier task;
    task.setup = setup;
    Trainer trainer({.max_steps = steps,
                     .strategy = world ? "fsdp" : "auto",
                     .validate_every = validate_every,
                     .resume = resume,
                     .callbacks = {std::make_shared<ModelCheckpoint>(
                         ModelCheckpointOptions{.folder = folder, .every_steps = 1, .keep = 0})},
                     .world = world});
    trainer.fit(task, data);
    return Result{task.rates, task.losses};
  };
  const Setup by_validation = with_plateau("score", {.factor = 0.5, .patience = 1}),
              by_training = with_plateau("train_score", {.factor = 0.5, .patience = 0}),
              by_epoch =
                  [](const ParameterList&parameters) {
                    return OptimizerSetup{two_groups(parameters), optim::exponential({.gamma = 0.5}),
                                          ScheduleInterval::epoch};
                  },
              by_group = [](const ParameterList&parameters) {
                return OptimizerSetup{.optimizer = two_groups(parameters),
                                      .group_schedules = {optim::exponential({.gamma = 0.5}),
                                                          optim::exponential({.gamma = 0.9})}};
              };
  const TemporaryFolder folder;
  struct Case {
    const char* name;
    const Setup& setup;
    int64_t validate_every;
  };
  for (const Case& each :
       {Case{"validation", by_validation, 2}, Case{"epochs", by_validation, 0},
        Case{"training", by_training, 3}, Case{"epoch", by_epoch, 0}, Case{"group", by_group, 0}}) {
    CAPTURE(each.name);
    const std::string base = folder / each.name;
    const Result whole = run(each.setup, 23, base + "/whole", "", nullptr, each.validate_every);
    REQUIRE(whole.rates.size() == 23);
    CHECK(whole.rates.back()[0] < whole.rates.front()[0]);
    for (const size_t stop : {1, 4, 5, 6, 10, 12, 15, 21}) {
      CAPTURE(stop);
      // The checkpoint of a run that went on, and that of a run that ended there.
      const std::string step = text(base, "/whole/step-000000", stop < 10 ? "0" : "", stop),
                        stopped = text(base, "/", stop);
      run(each.setup, static_cast<int64_t>(stop), stopped, "", nullptr, each.validate_every);
      for (const std::string& from : {step, stopped}) {
        const Result resumed = run(each.setup, 23, base + "/again", from, nullptr, each.validate_every);
        CHECK(resumed.rates == Rates(whole.rates.begin() + static_cast<int64_t>(stop), whole.rates.end()));
        CHECK(resumed.losses ==
              std::vector<double>(whole.losses.begin() + static_cast<int64_t>(stop), whole.losses.end()));
      }
      // On two ranks: the same rates.
      test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
        const Result resumed = run(each.setup, 23, base + "/ranks", step, &world, each.validate_every);
        if (resumed.rates == Rates(whole.rates.begin() + static_cast<int64_t>(stop), whole.rates.end()))
          return {};
        return {text("other rates after step ", stop)};
      });
    }
  }
}

TEST_CASE("schedules of a trainer: a step that loss scaling skips advances the schedules of groups no more") {
  struct Overflowing : Classifier {
    Variable training_step(const data::Batch& batch, int64_t index) override {
      const Variable loss = Classifier::training_step(batch, index);
      return index == 2 ? loss * Variable(full({}, 1e30f)) : loss;
    }
  };
  const auto half = optim::exponential({.gamma = 0.5});
  const auto run = [&](bool by_group) {
    Points data(10);
    Overflowing task;
    task.setup = [&](const ParameterList& parameters) {
      OptimizerSetup setup{.optimizer = two_groups(parameters)};
      if (by_group)
        setup.group_schedules = {half, half};
      else
        setup.schedule = half;
      return setup;
    };
    Trainer({.max_epochs = 1, .precision = PrecisionMode::f16}).fit(task, data);
    return task.rates;
  };
  const Rates rates = run(true);
  REQUIRE(rates.size() == 5);
  CHECK(rates[2] == rates[3]);
  CHECK(rates[3][1] == doctest::Approx(2 * rates[4][1]));
  CHECK(rates == run(false));
}

TEST_CASE("schedules of a trainer: a plan has them too") {
  for (const Setup& setup :
       {with_plateau("score", {}), Setup([](const ParameterList& parameters) {
          const auto half = optim::exponential({.gamma = 0.5});
          return OptimizerSetup{.optimizer = two_groups(parameters), .group_schedules = {half, half}};
        })}) {
    struct Planned : Classifier {
      Variable training_step(const data::Batch& batch, int64_t) override {
        return nn::cross_entropy((*this)(batch.x), batch.y);
      }
    };
    Points data(4);
    Trainer trainer({.max_epochs = 1});
    const StepPlan plan = trainer.plan(
        [&] {
          auto task = std::make_unique<Planned>();
          task->setup = setup;
          return task;
        },
        data);
    CHECK(plan.parameters == 8);
  }
}

TEST_CASE("schedules of a trainer: in manual optimization each part has its own, also in a resumed run") {
  struct Parts : TaskOf<Parts> {
    nn::Linear& a = add<nn::Linear>("a", {.in = 3, .out = 2});
    nn::Linear& b = add<nn::Linear>("b", {.in = 3, .out = 2});
    Rates rates;
    Variable forward(const Variable& x) { return a(x); }
    bool automatic_optimization() const override { return false; }
    std::vector<Part> configure_parts() override {
      const auto by_epoch = [](const ParameterList& parameters) {
        return OptimizerSetup{std::make_unique<optim::SGD>(parameters, 0.1),
                              optim::exponential({.gamma = 0.5}), ScheduleInterval::epoch};
      };
      const auto by_value = [](const ParameterList& parameters) {
        return OptimizerSetup{.optimizer = std::make_unique<optim::SGD>(parameters, 0.1),
                              .plateau = PlateauSchedule{"score", {.factor = 0.1, .patience = 0}}};
      };
      return {{"a", a, by_epoch}, {"b", b, by_value}};
    }
    Variable training_step(const data::Batch& batch, int64_t) override {
      ManualOptimization& manual = trainer().manual();
      rates.push_back({manual.engine(0).get_lr()[0], manual.engine(1).get_lr()[0]});
      manual.optimize(0, [&] { return nn::cross_entropy(a(batch.x), batch.y); });
      manual.optimize(1, [&] { return nn::cross_entropy(b(batch.x), batch.y); });
      return {};
    }
    void validation_step(const data::Batch&, int64_t) override { log("score", 1.0); }
  };
  const TemporaryFolder folder;
  const auto run = [&](int64_t steps, const std::string& to, const std::string& resume) {
    Points data(6);
    Parts task;
    Trainer trainer({.max_steps = steps,
                     .validate_every = 2,
                     .resume = resume,
                     .callbacks = {std::make_shared<ModelCheckpoint>(
                         ModelCheckpointOptions{.folder = folder / to, .every_steps = 1, .keep = 0})}});
    trainer.fit(task, data);
    return task.rates;
  };
  const Rates whole = run(8, "whole", "");
  // 3 batches an epoch; the first validation is the best one, each later one reduces the rate.
  const double a[] = {0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025},
               b[] = {0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001};
  REQUIRE(whole.size() == 8);
  for (size_t k = 0; k < 8; ++k) {
    CHECK(whole[k][0] == doctest::Approx(a[k]));
    CHECK(whole[k][1] == doctest::Approx(b[k]));
  }
  for (const int64_t stop : {2, 3, 4, 5})
    CHECK(run(8, "again", folder / text("whole/step-0000000", stop)) ==
          Rates(whole.begin() + stop, whole.end()));
}

TEST_CASE("schedules of a trainer: a new end of epochs stretches or holds the schedule") {
  const TemporaryFolder folder;
  const auto note = [&](int64_t epochs, const std::string& resume) {
    Points data(4);
    Classifier task;
    task.setup = [=](const ParameterList& parameters) {
      return OptimizerSetup{std::make_unique<optim::SGD>(parameters, 0.1),
                            optim::cosine_annealing({.t_max = epochs}), ScheduleInterval::epoch};
    };
    Trainer trainer(
        {.max_epochs = epochs,
         .resume = resume,
         .callbacks = {std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.folder = folder / "run"})}});
    trainer.fit(task, data);
    return trainer.resume_note();
  };
  note(2, "");
  const std::string stretched = note(4, folder / "run");
  CHECK(contains(stretched,
                 "max_epochs was 2 and is 4; the schedule cosine_annealing was stretched: the rate "
                 "of epoch 1 was 0.05"));
}

TEST_CASE(
    "schedules of a trainer: wrong setups and monitors are errors, before anything starts where it can be") {
  const auto error_of = [](const Setup& setup, TrainerOptions options = {}, bool has_validation = true) {
    options.max_epochs = 2;
    Points data(4, nullptr, has_validation);
    Classifier task;
    task.setup = setup;
    return message_of<ConfigError>([&] { Trainer(std::move(options)).fit(task, data); });
  };
  const auto half = optim::exponential({.gamma = 0.5});
  CHECK(error_of(with_plateau("val_los", {})) ==
        "Task::configure_optimizers: plateau: expected 'val_los' among what the task logs, got score, "
        "train_loss, train_score");
  CHECK(error_of(with_plateau("val_los", {}), {}, false) ==
        "Task::configure_optimizers: plateau: expected 'val_los' among what the task logs of an epoch, got "
        "train_loss, train_score");
  CHECK(contains(error_of(with_plateau("", {})), "expected a monitor"));
  CHECK(contains(error_of([&](const ParameterList& parameters) {
                   return OptimizerSetup{.optimizer = two_groups(parameters),
                                         .schedule = half,
                                         .group_schedules = {half, half}};
                 }),
                 "expected one of schedule, group_schedules and plateau, got 2"));
  CHECK(contains(error_of([&](const ParameterList& parameters) {
                   return OptimizerSetup{.optimizer = two_groups(parameters),
                                         .interval = ScheduleInterval::epoch,
                                         .plateau = PlateauSchedule{"score"}};
                 }),
                 "interval epoch: expected a schedule or group_schedules, got plateau"));
  CHECK(contains(error_of([&](const ParameterList& parameters) {
                   return OptimizerSetup{.optimizer = two_groups(parameters), .group_schedules = {half}};
                 }),
                 "expected a schedule for each of the 2 groups"));
  struct Endless : data::BatchSource, DataModule {
    data::Batch batch(int64_t) const override {
      data::Batch made;
      made.x = Tensor::zeros({2, 3}, f32);
      made.y = Tensor::zeros({2}, i64);
      made.samples = made.items = {0, 1};
      return made;
    }
    std::string name() const override { return "Endless"; }
    std::optional<LoaderSpec> train_dataloader() override {
      return LoaderSpec{.source = [](int, int) { return std::make_shared<Endless>(); }};
    }
  };
  for (const bool by_value : {false, true}) {
    Endless endless;
    Classifier task;
    task.setup = [&](const ParameterList& parameters) {
      if (by_value) return with_plateau("train_score", {})(parameters);
      return OptimizerSetup{two_groups(parameters), half, ScheduleInterval::epoch};
    };
    CHECK(contains(message_of<ConfigError>([&] { Trainer({.max_steps = 2}).fit(task, endless); }),
                   "a plateau without validations: expected a training loader with an end"));
    CHECK(task.losses.empty());
    Trainer({.max_steps = 2, .limit_train_batches = 1}).fit(task, endless);
    CHECK(task.losses.size() == 2);
  }
  struct Both : Classifier {
    void validation_step(const data::Batch&, int64_t) override { log("train_score", 1.0); }
  };
  Points data(4);
  Both both;
  both.setup = with_plateau("train_score", {});
  CHECK(contains(message_of<ConfigError>([&] { Trainer({.max_epochs = 1}).fit(both, data); }),
                 "expected a name that is logged in training or in validation, got 'train_score' in both"));
}
