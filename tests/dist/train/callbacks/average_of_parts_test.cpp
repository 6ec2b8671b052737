// ExponentialMovingAverage in manual optimization: an average of each part.
#include <doctest/doctest.h>

#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/fsdp/shard.h"
#include "dist/train/callbacks/exponential_moving_average.h"
#include "dist/train/callbacks/model_checkpoint.h"
#include "tests/dist/train/callbacks/small_run.h"
#include "tests/support/temporary_folder.h"

using namespace small_run;

namespace {

constexpr double decay = 0.75;

using Values = std::vector<float>;

/// The full values of a module of the task; all ranks call it.
Values values_of(Task& task, nn::Module& module) {
  Values values;
  std::optional<dist::SummonFullParams> full;
  if (auto* sharding = dynamic_cast<dist::Sharding*>(task.module().store())) full.emplace(*sharding);
  module.for_each_entry([&](const std::string&, const nn::Module::Entry& entry) {
    const Tensor value = entry.variable.value().to(f32).contiguous();
    values.insert(values.end(), value.data<float>(), value.data<float>() + value.numel());
  });
  return values;
}

/// Two layers, each a part: the second takes two steps for one of the first. After each of them their
/// averages are computed by the formula.
struct Parts : TaskOf<Parts> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 4, .out = 6});
  nn::Linear& second = add<nn::Linear>("second", {.in = 6, .out = 3});
  std::map<std::string, std::vector<double>> averages;
  std::map<std::string, Values> weights, in_validation;
  Variable forward(const Variable& x) { return second(tanh(first(x))); }
  bool automatic_optimization() const override { return false; }
  std::vector<Part> configure_parts() override {
    const auto sgd = [](const ParameterList& parameters) {
      return OptimizerSetup{std::make_unique<optim::SGD>(parameters, 0.5)};
    };
    return {{"first", first, sgd}, {"second", second, sgd}};
  }
  void take(const char* name, nn::Module& module) {
    const Values& values = weights[name] = values_of(*this, module);
    std::vector<double>& average = averages[name];
    if (average.empty()) average.assign(values.begin(), values.end());
    for (size_t i = 0; i < values.size(); ++i)
      average[i] = decay * average[i] + (1 - decay) * static_cast<double>(values[i]);
  }
  Variable training_step(const data::Batch& batch, int64_t) override {
    ManualOptimization& manual = trainer().manual();
    const auto loss = [&] { return nn::cross_entropy((*this)(batch.x), batch.y); };
    manual.optimize(0, loss);
    take("first", first);
    for (int i = 0; i < 2; ++i) {
      manual.optimize(1, loss);
      take("second", second);
    }
    return {};
  }
  void validation_step(const data::Batch& batch, int64_t) override {
    log("val_loss", nn::cross_entropy((*this)(batch.x), batch.y));
    in_validation = {{"first", values_of(*this, first)}, {"second", values_of(*this, second)}};
  }
};

bool are_near(const Values& values, const std::vector<double>& expected) {
  if (values.size() != expected.size() || values.empty()) return false;
  for (size_t i = 0; i < values.size(); ++i)
    if (!(std::abs(static_cast<double>(values[i]) - expected[i]) < 1e-5)) return false;
  return true;
}

std::vector<std::string> check_fit(const std::string& strategy, dist::World* world) {
  std::vector<std::string> problems;
  const auto average =
      std::make_shared<training::ExponentialMovingAverage>(ExponentialMovingAverageOptions{.decay = decay});
  Points data(world);
  Parts task;
  Trainer trainer({.max_epochs = 2, .strategy = strategy, .callbacks = {average}, .world = world});
  trainer.fit(task, data);
  if (average->average("first").n_averaged() != 6) problems.push_back("updates of first");
  if (average->average("second").n_averaged() != 12) problems.push_back("updates of second");
  const std::map<std::string, Values> after{{"first", values_of(task, task.first)},
                                            {"second", values_of(task, task.second)}};
  for (const char* name : {"first", "second"}) {
    if (!are_near(task.in_validation[name], task.averages[name]))
      problems.push_back(text("values of ", name, " in validation"));
    if (!are_near(after.at(name), task.averages[name])) problems.push_back(text(name, " after the fit"));
    if (are_near(task.weights[name], task.averages[name])) problems.push_back(text(name, " is not averaged"));
  }
  return problems;
}

struct Result {
  std::map<std::string, Values> weights, averages;
};

/// A run to `steps` that saves after each step.
Result run(int64_t steps, const std::string& folder, const std::string& resume, dist::World* world,
           PrecisionMode precision = PrecisionMode::f32) {
  Points data(world);
  Parts task;
  Trainer trainer({.max_steps = steps,
                   .strategy = world ? "full_shard" : "auto",
                   .precision = precision,
                   .validate_every = 1,
                   .resume = resume,
                   .callbacks = {std::make_shared<training::ExponentialMovingAverage>(
                                     ExponentialMovingAverageOptions{.decay = decay}),
                                 std::make_shared<ModelCheckpoint>(
                                     ModelCheckpointOptions{.folder = folder, .every_steps = 1})},
                   .world = world});
  trainer.fit(task, data);
  return {task.weights, task.in_validation};
}

}  // namespace

TEST_CASE("moving averages of parts: each counts the steps of its part, by the formula, on shards too") {
  const std::vector<std::string> alone = check_fit("auto", nullptr);
  CHECK(alone.size() == 0);
  for (const std::string& problem : alone) MESSAGE(problem);
  for (const char* strategy : {"ddp", "shard_optim", "full_shard"}) {
    CAPTURE(std::string(strategy));
    test::require_no_problems(2, [&](dist::World& world) { return check_fit(strategy, &world); });
  }
}

TEST_CASE("moving averages of parts: a resumed run has those of one without a stop, to the bit") {
  const TemporaryFolder folder;
  const auto check = [&](dist::World* world, const std::string& name) -> std::vector<std::string> {
    const Result whole = run(5, folder / (name + "whole"), "", world);
    run(2, folder / (name + "run"), "", world);
    const Result resumed = run(5, folder / (name + "run"), folder / (name + "run"), world);
    std::vector<std::string> problems;
    if (resumed.weights != whole.weights) problems.push_back("weights");
    if (resumed.averages != whole.averages) problems.push_back("averages");
    if (whole.averages == whole.weights) problems.push_back("averages are the weights");
    return problems;
  };
  const std::vector<std::string> alone = check(nullptr, "one-");
  CHECK(alone.size() == 0);
  for (const std::string& problem : alone) MESSAGE(problem);
  test::require_no_problems(2, [&](dist::World& world) { return check(&world, "two-"); });
  const dist::CheckpointReader reader(folder / "one-whole/step-00000005");
  const Tensor weight = Tensor::empty({6, 4}, f32), average = Tensor::empty({6, 4}, f32);
  reader.read({"model.first", "weight"}, dist::full_range({6, 4}), weight);
  reader.read({"average.first", "weight"}, dist::full_range({6, 4}), average);
  CHECK(weight.data<float>()[0] != average.data<float>()[0]);
  // Two ranks' checkpoint on one.
  const Result again = run(6, folder / "again", folder / "two-whole", nullptr);
  CHECK(again.averages.at("second").size() == 21);
}

TEST_CASE("moving averages of parts: in half precision, and from a checkpoint without averages") {
  const TemporaryFolder folder;
  const Result whole = run(4, folder / "whole", "", nullptr, PrecisionMode::bf16);
  run(2, folder / "run", "", nullptr, PrecisionMode::bf16);
  const Result resumed = run(4, folder / "run", folder / "run", nullptr, PrecisionMode::bf16);
  CHECK(resumed.weights == whole.weights);
  CHECK(resumed.averages == whole.averages);
  Points data;
  Parts without, with;
  Trainer(
      {.max_steps = 2,
       .callbacks = {std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.folder = folder / "plain"})}})
      .fit(without, data);
  const auto average = std::make_shared<training::ExponentialMovingAverage>(
      ExponentialMovingAverageOptions{.every_steps = 2, .first_step = 4});
  CHECK(contains(message_of<ConfigError>([&] { average->average("first"); }), "newest fit (none)"));
  Trainer({.max_steps = 4, .resume = folder / "plain", .callbacks = {average}}).fit(with, data);
  CHECK(average->average("first").n_averaged() == 1);   // step 4 of 4
  CHECK(average->average("second").n_averaged() == 2);  // steps 6 and 8 of 8
  CHECK(contains(message_of<ConfigError>([&] { average->average(); }), "name of one of the 2 parts"));
  CHECK(contains(message_of<ConfigError>([&] { average->average("third"); }),
                 "newest fit ('first', 'second'), got 'third'"));
}
