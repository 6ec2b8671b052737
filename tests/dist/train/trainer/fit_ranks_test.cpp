// Runs on several ranks that are threads, each with its own task.
#include "dist/train/launch/fit_ranks.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "dist/train/monitors/json_lines.h"
#include "dist/train/trainer/trainer_arguments.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "optim/rules/adam.h"
#include "tensor/error.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/environment.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

struct Points : DataModule {
  int64_t batch_size = 2;
  std::optional<LoaderSpec> train_dataloader() override {
    Tensor x = Tensor::empty({12, 4}, f32), y = Tensor::empty({12}, i64);
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 3));
    for (int64_t i = 0; i < 12; ++i) y.data<int64_t>()[i] = i * i % 3;
    return LoaderSpec{std::make_shared<data::TensorDataset>(x, y), {.batch_size = batch_size}};
  }
};

struct Classifier : TaskOf<Classifier> {
  nn::Linear& out = add<nn::Linear>("out", {.in = 4, .out = 3});
  Variable forward(const Variable& x) { return out(x); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    log("loss", loss);
    return loss;
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::Adam>(parameters, 1e-2)};
  }
};

std::unique_ptr<Task> make_task() {
  return std::make_unique<Classifier>();
}
DataMaker points_of(int64_t batch_size) {
  return [=] {
    auto points = std::make_unique<Points>();
    points->batch_size = batch_size;
    return points;
  };
}
OptionsMaker devices(int count, const char* strategy = "auto") {
  return [=] { return TrainerOptions{.max_epochs = 2, .strategy = strategy, .devices = count}; };
}

}  // namespace

TEST_CASE("fit on devices: as many ranks as threads, each with a task of its own, have the losses of one") {
  const double alone = fit(devices(0), make_task, points_of(4)).at("loss");
  for (const char* strategy : {"ddp", "fsdp"}) {
    std::atomic<int> tasks = 0;
    const auto count_task = [&] {
      ++tasks;
      return make_task();
    };
    const double value = fit(devices(2, strategy), count_task, points_of(2)).at("loss");
    CHECK(std::abs(value - alone) < 1e-6);
    CHECK(tasks == 2);
  }
  CHECK(fit(devices(1), make_task, points_of(4)).at("loss") == alone);
}

TEST_CASE("fit on devices: another number than that of the ranks is an error that names both") {
  CHECK(message_of<ConfigError>([] { Trainer trainer({.max_epochs = 1, .devices = 4}); }) ==
        "Trainer: devices 4: expected 1, the number of ranks, or 0; training::fit starts ranks");
  test::require_no_problems(2, [](dist::World& world) -> std::vector<std::string> {
    const auto trainer_of = [&](int count) {
      return message_of<ConfigError>(
          [&] { Trainer trainer({.max_epochs = 1, .world = &world, .devices = count}); });
    };
    if (trainer_of(3) !=
        "Trainer: devices 3: expected 2, the number of ranks, or 0; training::fit starts ranks")
      return {trainer_of(3)};
    const Trainer right({.max_epochs = 1, .world = &world, .devices = 2});
    return {};
  });
  {
    const Environment size("OMPI_COMM_WORLD_SIZE", "2"), rank("OMPI_COMM_WORLD_RANK", "0");
    CHECK(message_of<ConfigError>([] { fit(devices(3), make_task, points_of(2)); }) ==
          "Trainer: devices 3: expected 2, the ranks that mpirun started, or 0");
  }
  CHECK(message_of<ConfigError>([] { fit(devices(-1), make_task, points_of(4)); }) ==
        "Trainer: devices -1: expected 0 or more");
  CHECK(message_of<ConfigError>([] { fit(devices(2), nullptr, points_of(4)); }) ==
        "training::fit: expected a function that makes the task, got none");
  CHECK(message_of<ConfigError>([] {
          fit(devices(1), make_task, [] { return std::unique_ptr<DataModule>(); });
        }) == "training::fit: the function that makes the data module returned none");
}

TEST_CASE(
    "fit on devices: callbacks and monitors that two ranks would share are errors before anything starts") {
  int tasks = 0;
  const auto count_task = [&] {
    ++tasks;
    return make_task();
  };
  const auto error_of = [&](const TrainerOptions& shared) {
    return message_of<ConfigError>([&] { fit([&] { return shared; }, count_task, points_of(2)); });
  };
  const std::string end =
      " of its own for each rank, got one object on two ranks; the function that makes the options has to "
      "make "
      "them in each call (training::fit_arguments does)";
  CHECK(error_of({.max_epochs = 1, .callbacks = {std::make_shared<Callback>()}, .devices = 2}) ==
        "training::fit: expected callbacks" + end);
  CHECK(error_of({.max_epochs = 1,
                  .monitors = {std::make_shared<JsonLinesMonitor>("none.jsonl")},
                  .devices = 3}) == "training::fit: expected monitors" + end);
  CHECK(tasks == 0);
  const TrainerOptions one{.max_epochs = 1, .callbacks = {std::make_shared<Callback>()}, .devices = 1};
  fit([&] { return one; }, make_task, points_of(4));
  const TrainerOptions two{.max_epochs = 1, .callbacks = {std::make_shared<Callback>()}, .devices = 2};
  CHECK(plan([&] { return two; }, make_task, points_of(2)).peak.total > 0);
}

TEST_CASE("fit_arguments: each rank has callbacks and monitors of its own, of the program and of the flags") {
  const TemporaryFolder folder;
  const std::string saved = folder / "run", metrics = folder / "run.jsonl";
  const auto program = [] {
    return TrainerOptions{.max_epochs = 1, .strategy = "fsdp", .callbacks = {std::make_shared<Callback>()}};
  };
  const auto options_of = [&](std::vector<const char*> argv, std::ostream& out) {
    argv.insert(argv.begin(), "program");
    return fit_arguments(program, static_cast<int>(argv.size()), argv.data(), out, make_task, points_of(2));
  };
  std::ostringstream out;
  const auto options = options_of({"--devices", "2", "--out", saved.c_str(), "--metrics", metrics.c_str(),
                                   "--steps-per-print", "1", "--log-every", "1"},
                                  out);
  REQUIRE(options.has_value());
  const TrainerOptions first = (*options)(), second = (*options)();
  REQUIRE(first.callbacks.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(first.callbacks[i] != second.callbacks[i]);
  CHECK(first.monitors[0] != second.monitors[0]);
  CHECK(fit(*options, make_task, points_of(2)).contains("loss"));
  CHECK(std::filesystem::exists(folder / "run/step-00000003"));
  CHECK_MESSAGE(contains(out.str(), "step=3, AvgSamplesPerSec="), out.str());
  std::ostringstream help;
  CHECK_FALSE(options_of({"--help"}, help).has_value());
  CHECK(contains(help.str(), "--devices"));
  CHECK(contains(
      message_of<ConfigError>([] { fit_arguments(nullptr, 0, nullptr, std::cout, make_task, points_of(2)); }),
      "expected a function that makes the options"));
}
