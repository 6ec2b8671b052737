// Signals that end a run of a Trainer after its step.
#include <doctest/doctest.h>

#include <cmath>
#include <csignal>

#include "autograd/functions/elementwise/unary.h"
#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/train/callbacks/model_checkpoint.h"
#include "dist/train/trainer/signal_watch.h"
#include "dist/train/trainer/trainer.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "optim/rules/adam.h"
#include "tensor/error.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

std::shared_ptr<const data::Dataset> points(int64_t n) {
  Tensor x = Tensor::empty({n, 4}, f32), y = Tensor::empty({n}, i64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 3));
  for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = i * i % 3;
  return std::make_shared<data::TensorDataset>(x, y);
}

struct Points : DataModule {
  int64_t batch_size = 4;
  std::optional<LoaderSpec> train_dataloader() override {
    return LoaderSpec{points(24), {.batch_size = batch_size, .shuffle = true}};
  }
  std::optional<LoaderSpec> val_dataloader() override {
    return LoaderSpec{points(12), {.batch_size = batch_size}};
  }
};

struct Classifier : TaskOf<Classifier> {
  nn::Linear& out = add<nn::Linear>("out", {.in = 4, .out = 3});
  std::vector<double> losses;
  std::vector<int64_t> validated;  // the steps
  Variable forward(const Variable& x) { return out(x); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    losses.push_back(loss.value().item());
    return loss;
  }
  void validation_step(const data::Batch& batch, int64_t index) override {
    if (index == 0) validated.push_back(trainer().global_step());
    log("val_loss", nn::cross_entropy((*this)(batch.x), batch.y));
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::Adam>(parameters, 1e-2)};
  }
};

/// Raises a signal on one rank, in a training batch or in a validation batch, and records the ends.
struct Raise : Callback {
  int signal, rank;
  int64_t training_batch, validation_batch;
  std::vector<std::string> ends;
  Raise(int signal, int64_t training_batch, int64_t validation_batch = -1, int rank = 0)
      : signal(signal), rank(rank), training_batch(training_batch), validation_batch(validation_batch) {}
  void on_before_backward(Trainer& trainer, Task&, const Variable&) override {
    if (trainer.rank() == rank && trainer.engine().micro_steps() == training_batch) std::raise(signal);
  }
  void on_validation_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t index) override {
    if (trainer.rank() == rank && index == validation_batch) std::raise(signal);
  }
  void on_validation_end(Trainer&, Task&) override { ends.push_back("validation"); }
  void on_train_end(Trainer&, Task&) override { ends.push_back("train"); }
  void on_fit_end(Trainer&, Task&) override { ends.push_back("fit"); }
};

struct Result {
  std::vector<double> losses;
  std::vector<int64_t> validated;
  int interrupted;
};

Result run(const std::string& folder, const std::string& resume, std::shared_ptr<Raise> raise,
           TrainerOptions options = {}) {
  Points data;
  if (options.world) data.batch_size = 4 / options.world->size();
  Classifier task;
  options.max_steps = 8;
  options.resume = resume;
  options.signals = {SIGINT, SIGTERM, SIGUSR1};
  if (raise) options.callbacks.push_back(raise);
  options.callbacks.push_back(std::make_shared<ModelCheckpoint>(
      ModelCheckpointOptions{.folder = folder, .every_steps = 100, .monitor = "val_loss"}));
  Trainer trainer(options);
  trainer.fit(task, data);
  return {task.losses, task.validated, trainer.interrupted()};
}

using Steps = std::vector<int64_t>;

}  // namespace

TEST_CASE("signals: a run ends after the step, saves itself, and resumes with the same bits") {
  const TemporaryFolder folder;
  const Result whole = run(folder / "whole", "", nullptr, {.validate_every = 3});
  CHECK(whole.interrupted == 0);
  CHECK(whole.validated == Steps{3, 6});
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1})
    for (const int64_t batch : {0, 2, 4}) {
      const std::string name = folder / text("run", signal, "-", batch);
      const auto raise = std::make_shared<Raise>(signal, batch);
      const Result first = run(name, "", raise, {.validate_every = 3});
      CHECK(first.interrupted == signal);
      CHECK(raise->ends == (batch == 4 ? std::vector<std::string>{"validation", "train", "fit"}
                                       : std::vector<std::string>{"train", "fit"}));
      CHECK(static_cast<int64_t>(first.losses.size()) == batch + 1);
      CHECK(dist::list_checkpoints(name) == Steps{batch + 1});
      // The validation of step 3 that the signal left out is the first that the resumed run does.
      const Result second = run(name, name, nullptr, {.validate_every = 3});
      CHECK(second.interrupted == 0);
      CHECK(second.validated == (batch == 4 ? Steps{6} : Steps{3, 6}));
      CHECK(second.losses == std::vector<double>(whole.losses.begin() + batch + 1, whole.losses.end()));
    }
}

TEST_CASE("signals: a validation ends at once, and the resumed run begins with it") {
  const TemporaryFolder folder;
  for (const int64_t every : {0, 2}) {
    const std::string name = folder / text("every", every);
    const auto raise = std::make_shared<Raise>(SIGTERM, -1, 1);
    const Result first = run(name, "", raise, {.validate_every = every});
    const int64_t step = every == 0 ? 6 : 2;
    CHECK(first.interrupted == SIGTERM);
    CHECK(raise->ends == std::vector<std::string>{"train", "fit"});
    CHECK(dist::list_checkpoints(name) == Steps{step});
    CHECK(run(name, name, nullptr, {.validate_every = every}).validated.front() == step);
  }
}

TEST_CASE("signals: all ranks end after the same step where one of them has the signal") {
  const TemporaryFolder folder;
  test::require_no_problems(2, [&](dist::World& world) {
    std::vector<std::string> problems;
    const auto raise = std::make_shared<Raise>(SIGTERM, 2, -1, 1);
    const TrainerOptions options{.strategy = "full_shard", .world = &world};
    const Result whole = run(folder / "whole", "", nullptr, options);
    const Result first = run(folder / "run", "", raise, options);
    if (first.interrupted != SIGTERM || first.losses.size() != 3)
      problems.push_back(text("signal ", first.interrupted, " after ", first.losses.size(), " steps"));
    const Result second = run(folder / "run", folder / "run", nullptr, options);
    if (second.losses != std::vector<double>(whole.losses.begin() + 3, whole.losses.end()))
      problems.push_back("other bits");
    return problems;
  });
}

TEST_CASE("signals: they have their effect again afterwards, and one that cannot be handled is refused") {
  struct sigaction before = {}, during = {}, after = {};
  sigaction(SIGUSR1, nullptr, &before);
  {
    const SignalWatch outer({SIGUSR1});
    {
      const SignalWatch inner({SIGUSR1, SIGUSR2});
      std::raise(SIGUSR2);
      CHECK(SignalWatch::received() == SIGUSR2);
    }
    sigaction(SIGUSR1, nullptr, &during);
    CHECK((during.sa_handler != before.sa_handler));
    std::raise(SIGUSR1);
    CHECK(SignalWatch::received() == SIGUSR1);
  }
  sigaction(SIGUSR1, nullptr, &after);
  CHECK((after.sa_handler == before.sa_handler));
  CHECK(message_of<ConfigError>([] {
          SignalWatch watch({SIGUSR1, SIGKILL});
        }) == "signals: expected signals that a process can handle, got 9");
  sigaction(SIGUSR1, nullptr, &after);
  CHECK((after.sa_handler == before.sa_handler));
  const SignalWatch next({SIGUSR1});
  CHECK(SignalWatch::received() == 0);
}
