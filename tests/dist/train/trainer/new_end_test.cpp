// Runs that are resumed to another end, and runs that begin with the weights of another.
#include <doctest/doctest.h>

#include <cmath>

#include "dist/train/callbacks/model_checkpoint.h"
#include "dist/train/trainer/trainer.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "optim/rules/adam.h"
#include "optim/rules/sgd.h"
#include "optim/schedules/cosine.h"
#include "tensor/error.h"
#include "tensor/ops/matmul.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

struct Points : DataModule {
  int64_t batch_size = 4;
  std::optional<LoaderSpec> train_dataloader() override {
    Tensor x = Tensor::empty({24, 4}, f32), y = Tensor::empty({24}, i64);
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 3));
    for (int64_t i = 0; i < 24; ++i) y.data<int64_t>()[i] = i * i % 3;
    return LoaderSpec{std::make_shared<data::TensorDataset>(x, y), {.batch_size = batch_size}};
  }
};

struct Classifier : TaskOf<Classifier> {
  nn::Linear& out = add<nn::Linear>("out", {.in = 4, .out = 3});
  int64_t schedule_steps = 4;
  double sgd_rate = 0;  // 0: Adam with the schedule
  std::vector<double> losses, rates;
  Variable forward(const Variable& x) { return out(x); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    losses.push_back(loss.value().item());
    rates.push_back(trainer().engine().get_lr().front());
    return loss;
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    if (sgd_rate > 0) return {std::make_unique<optim::SGD>(parameters, sgd_rate)};
    return {std::make_unique<optim::Adam>(parameters, 1e-2),
            optim::cosine({.lr = 1e-2, .min_lr = 1e-3, .steps = schedule_steps})};
  }
};

struct Result {
  std::vector<double> losses, rates;
  std::string note, products;
};

Result run(int64_t steps, int64_t schedule_steps, const std::string& folder, TrainerOptions options = {},
           double sgd_rate = 0) {
  Points data;
  if (options.world) data.batch_size = 4 / options.world->size();
  Classifier task;
  task.schedule_steps = schedule_steps;
  task.sgd_rate = sgd_rate;
  options.max_steps = steps;
  options.callbacks = {std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.folder = folder})};
  Trainer trainer(std::move(options));
  trainer.fit(task, data);
  return {task.losses, task.rates, trainer.resume_note(), trainer.products_note()};
}

}  // namespace

TEST_CASE("a finished run goes on to a new end, and says whether the schedule was stretched or held") {
  const TemporaryFolder folder;
  CHECK(run(4, 4, folder / "a").note.empty());
  const Result held = run(7, 4, folder / "a", {.resume = folder / "a"});
  CHECK(held.losses.size() == 3);
  CHECK(held.rates == std::vector<double>(3, 1e-3));
  CHECK(held.note == "max_steps was 4 and is 7; the schedule cosine was held: its rates are those of before");

  run(4, 4, folder / "b");
  const Result stretched = run(8, 8, folder / "b", {.resume = folder / "b"});
  CHECK(stretched.losses.size() == 4);
  CHECK(stretched.rates.front() == optim::cosine({.lr = 1e-2, .min_lr = 1e-3, .steps = 8}).at(4));
  CHECK(contains(stretched.note,
                 "max_steps was 4 and is 8; the schedule cosine was stretched: the rate of "
                 "step 4 was 0.001 and is 0.005"));
  CHECK(run(8, 8, folder / "b", {.resume = folder / "b"}).note.empty());
}

TEST_CASE("a run that goes on where other kernels multiply says so, and which they are") {
  struct Restore {
    MatmulBackend before = matmul_backend();
    ~Restore() { set_matmul_backend(before); }
  } restore;
  const TemporaryFolder folder;
  set_matmul_backend(MatmulBackend::packed);
  const std::string there = matmul_kernels();
  CHECK(run(2, 2, folder / "a").products.empty());
  CHECK(run(3, 3, folder / "a", {.resume = folder / "a"}).products.empty());
  set_matmul_backend(MatmulBackend::eigen);
  const std::string note = run(4, 4, folder / "a", {.resume = folder / "a"}).products;
  CHECK(contains(note, "matrix products differ from those of the checkpoint"));
  CHECK(contains(note, matmul_kernels()));
  CHECK(contains(note, "there " + there));
}

TEST_CASE("a new run begins with the weights of another, and its own optimizer and steps") {
  const TemporaryFolder folder;
  const Result first = run(6, 6, folder / "first");
  const Result whole = run(7, 6, folder / "longer");
  const Result tuned = run(3, 3, folder / "tuned", {.seed = 5, .init_from = folder / "first"}, 0.1);
  CHECK(tuned.losses.size() == 3);
  CHECK(tuned.rates == std::vector<double>(3, 0.1));
  // The first loss of the epoch's first batch, by the weights after 6 steps.
  CHECK(tuned.losses.front() == whole.losses.back());
  test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
    const TrainerOptions options{.strategy = "fsdp", .init_from = folder / "first", .world = &world};
    const Result sharded = run(1, 1, folder / "sharded", options, 0.1);
    const Result fresh = run(1, 1, folder / "fresh", {.strategy = "fsdp", .world = &world}, 0.1);
    if (sharded.losses.front() < fresh.losses.front()) return {};
    return {text(sharded.losses.front(), " by the weights, ", fresh.losses.front(), " without")};
  });
  CHECK(
      contains(message_of<CheckpointError>([&] { run(1, 1, folder / "x", {.init_from = folder / "none"}); }),
               folder / "none"));
}

TEST_CASE("trainer: options that contradict each other are errors that name both") {
  const auto error_of = [](TrainerOptions options) {
    options.max_steps = 1;
    return message_of<ConfigError>([&] { Trainer trainer(std::move(options)); });
  };
  CHECK(error_of({.resume = "a", .init_from = "b"}) ==
        "Trainer: expected resume or init_from, got resume 'a' and init_from 'b'");
  CHECK(error_of({.fast_dev_run = true, .overfit_batches = 2}) ==
        "Trainer: expected fast_dev_run or overfit_batches, got both");
}

TEST_CASE("trainer: a callback that throws on one rank ends the run of all, with the exception") {
  struct Thrower : Callback {
    void on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t index) override {
      if (trainer.rank() == 1 && index == 2) throw DataError("the callback of rank 1");
    }
  };
  const std::string message = message_of<DataError>([] {
    dist::launch(
        [](dist::World& world) {
          Points data;
          data.batch_size = 2;
          Classifier task;
          Trainer trainer({.max_epochs = 3,
                           .strategy = "fsdp",
                           .callbacks = {std::make_shared<Thrower>()},
                           .world = &world});
          trainer.fit(task, data);
        },
        {.virtual_ranks = 2, .timeout = std::chrono::seconds(60)});
  });
  CHECK(message == "the callback of rank 1");
}
