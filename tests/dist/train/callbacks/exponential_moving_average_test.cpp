#include "dist/train/callbacks/exponential_moving_average.h"

#include <doctest/doctest.h>

#include <optional>

#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/fsdp/shard.h"
#include "dist/train/callbacks/model_checkpoint.h"
#include "tests/dist/train/callbacks/small_run.h"
#include "tests/support/temporary_folder.h"

using namespace small_run;

namespace {

constexpr double decay = 0.75;

/// The full values of a model; all ranks call it.
std::vector<float> values_of(Task& task) {
  std::vector<float> values;
  std::optional<dist::SummonFullParams> full;
  if (auto* sharding = dynamic_cast<dist::Sharding*>(task.module().store())) full.emplace(*sharding);
  task.module().for_each_entry([&](const std::string&, const nn::Module::Entry& entry) {
    const Tensor value = entry.variable.value().contiguous();
    values.insert(values.end(), value.data<float>(), value.data<float>() + value.numel());
  });
  return values;
}

/// Computes the average by its formula from the weights after each step, and sees the weights in validation.
struct Formula : Callback {
  std::vector<double> average;
  std::vector<float> weights, in_validation;
  void on_train_batch_end(Trainer& trainer, Task& task, const data::Batch&, int64_t) override {
    if (!trainer.is_at_step_end()) return;
    weights = values_of(task);
    if (average.empty()) average.assign(weights.begin(), weights.end());
    for (size_t i = 0; i < weights.size(); ++i)
      average[i] = decay * average[i] + (1 - decay) * static_cast<double>(weights[i]);
  }
  void on_validation_batch_start(Trainer&, Task& task, const data::Batch&, int64_t) override {
    in_validation = values_of(task);
  }
};

bool is_near(const std::vector<float>& values, const std::vector<double>& expected) {
  if (values.size() != expected.size() || values.empty()) return false;
  for (size_t i = 0; i < values.size(); ++i)
    if (!(std::abs(static_cast<double>(values[i]) - expected[i]) < 1e-5)) return false;
  return true;
}

std::vector<std::string> check_fit(const std::string& strategy, dist::World* world) {
  std::vector<std::string> problems;
  const auto formula = std::make_shared<Formula>();
  const auto average =
      std::make_shared<training::ExponentialMovingAverage>(ExponentialMovingAverageOptions{.decay = decay});
  struct After : Callback {
    Formula& formula;
    std::vector<std::string>& problems;
    After(Formula& f, std::vector<std::string>& p) : formula(f), problems(p) {}
    void on_train_epoch_end(Trainer&, Task& task) override {
      if (!is_near(formula.in_validation, formula.average)) problems.push_back("values in validation");
      if (values_of(task) != formula.weights) problems.push_back("values after validation");
    }
    void on_fit_end(Trainer&, Task& task) override {
      if (!is_near(values_of(task), formula.average)) problems.push_back("values after the fit");
    }
  };
  Points data(world);
  Classifier task;
  Trainer trainer({.max_epochs = 2,
                   .strategy = strategy,
                   .accumulate = 1,
                   .callbacks = {average, formula, std::make_shared<After>(*formula, problems)},
                   .world = world});
  trainer.fit(task, data);
  if (average->average().n_averaged() != 6) problems.push_back("updates");
  return problems;
}

struct Result {
  std::vector<float> weights, averages;
  std::vector<double> validations;
};

/// A run to `steps` that saves after each step.
Result run(int64_t steps, const std::string& folder, const std::string& resume, dist::World* world) {
  const auto formula = std::make_shared<Formula>();
  const auto recorder = std::make_shared<Recorder>();
  Points data(world);
  Classifier task;
  Trainer trainer({.max_steps = steps,
                   .strategy = world ? "full_shard" : "auto",
                   .validate_every = 1,
                   .resume = resume,
                   .callbacks = {std::make_shared<training::ExponentialMovingAverage>(
                                     ExponentialMovingAverageOptions{.decay = decay}),
                                 formula,
                                 std::make_shared<ModelCheckpoint>(
                                     ModelCheckpointOptions{.folder = folder, .every_steps = 1})},
                   .monitors = {recorder},
                   .world = world});
  trainer.fit(task, data);
  Result result{formula->weights, formula->in_validation, {}};
  for (const auto& [step, value] : recorder->series("val_loss")) result.validations.push_back(value);
  return result;
}

}  // namespace

TEST_CASE("moving average: validations and the end of a fit have the formula's values, on shards too") {
  const std::vector<std::string> alone = check_fit("auto", nullptr);
  CHECK(alone.size() == 0);
  for (const std::string& problem : alone) MESSAGE(problem);
  for (const char* strategy : {"ddp", "shard_optim", "full_shard"}) {
    CAPTURE(std::string(strategy));
    test::require_no_problems(2, [&](dist::World& world) { return check_fit(strategy, &world); });
  }
}

TEST_CASE("moving average: a resumed run has the averages of one without a stop, to the bit") {
  const TemporaryFolder folder;
  const auto check = [&](dist::World* world, const std::string& name) -> std::vector<std::string> {
    const Result whole = run(5, folder / (name + "whole"), "", world);
    run(2, folder / (name + "run"), "", world);
    const Result resumed = run(5, folder / (name + "run"), folder / (name + "run"), world);
    std::vector<std::string> problems;
    if (resumed.weights != whole.weights) problems.push_back("weights");
    if (resumed.averages != whole.averages) problems.push_back("averages");
    if (whole.averages == whole.weights) problems.push_back("averages are the weights");
    if (resumed.validations.size() + 2 < whole.validations.size()) problems.push_back("validations");
    return problems;
  };
  const std::vector<std::string> alone = check(nullptr, "one-");
  CHECK(alone.size() == 0);
  for (const std::string& problem : alone) MESSAGE(problem);
  test::require_no_problems(2, [&](dist::World& world) { return check(&world, "two-"); });
  // Weights are saved as trained, and the averages beside them under their names.
  const dist::CheckpointReader reader(folder / "one-whole/step-00000005");
  const Tensor weight = Tensor::empty({6, 4}, f32), average = Tensor::empty({6, 4}, f32);
  reader.read({"model", "first.weight"}, dist::full_range({6, 4}), weight);
  reader.read({"average", "first.weight"}, dist::full_range({6, 4}), average);
  CHECK(weight.data<float>()[0] != average.data<float>()[0]);
  CHECK(reader.state().step == 5);
}

TEST_CASE("moving average: a checkpoint without averages, a checkpoint in a validation, an exception in it") {
  const TemporaryFolder folder;
  const auto fit = [&](Task& task, TrainerOptions options) {
    Points data;
    Trainer trainer(std::move(options));
    trainer.fit(task, data);
  };
  Classifier without;
  const auto saver =
      std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.folder = folder / "run", .every_steps = 1});
  fit(without, {.max_steps = 2, .callbacks = {saver}});
  Classifier with;
  const auto average = std::make_shared<training::ExponentialMovingAverage>();
  fit(with, {.max_steps = 4, .resume = folder / "run", .callbacks = {average}});
  CHECK(average->average().n_averaged() == 2);

  struct Saver : Callback {
    std::string folder;
    void on_validation_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) override {
      trainer.save_checkpoint(folder);
    }
  };
  const auto early = std::make_shared<Saver>();
  early->folder = folder / "early";
  const auto formula = std::make_shared<Formula>();
  Classifier task;
  CHECK(contains(message_of<ConfigError>([&] {
                   fit(task, {.max_epochs = 1, .callbacks = {average, formula, early}});
                 }),
                 "expected a checkpoint outside of a validation"));
  CHECK(values_of(task) == formula->weights);  // the exception left the trained weights
  CHECK(contains(message_of<ConfigError>([] { training::ExponentialMovingAverage a({.decay = 2}); }),
                 "decay 2"));
}
