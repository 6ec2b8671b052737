#include "dist/train/callbacks/model_checkpoint.h"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>

#include "dist/train/callbacks/early_stopping.h"
#include "dist/train/callbacks/exponential_moving_average.h"
#include "dist/train/trainer/trainer.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "optim/rules/adam.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;

namespace {

struct Points : data::Dataset {
  int64_t size() const override { return 48; }
  data::Example get(int64_t i) const override {
    const auto a = static_cast<float>(i % 7), b = static_cast<float>(i % 5);
    return {Tensor::from(std::vector<float>{a - 3, b - 2}), Tensor::from(std::vector<float>{a - 3})};
  }
};

/// Logs "val_loss": that of the number of validations in the steps so far.
struct Net : training::TaskOf<Net> {
  nn::Linear& out = add<nn::Linear>("out", {.in = 2, .out = 1});
  std::vector<double> values;
  bool rises = false;  // by batch
  Variable forward(const Variable& x) { return out(x); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::mse_loss((*this)(batch.x), batch.y);
    log("loss", loss);
    return loss;
  }
  void validation_step(const data::Batch&, int64_t index) override {
    const auto epoch = static_cast<size_t>(trainer().global_step() / 6);
    log("val_loss", rises ? static_cast<double>(index) : epoch < values.size() ? values[epoch] : 1.0);
  }
  training::OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = 1e-2})};
  }
};

training::Loaders data_of(int64_t batch_size = 8) {
  const training::LoaderSpec spec{std::make_shared<Points>(), {.batch_size = batch_size}};
  return training::Loaders(spec, spec);
}

using training::ModelCheckpoint;
using Options = training::ModelCheckpointOptions;

}  // namespace

TEST_CASE("model checkpoints: a validation that a signal ends gives no value") {
  struct Raise : training::Callback {
    void on_validation_batch_end(training::Trainer&, training::Task&, const data::Batch&,
                                 int64_t index) override {
      if (index == 0) std::raise(SIGTERM);
    }
  };
  const TemporaryFolder folder;
  Net net;
  net.rises = true;  // 0 for the first batch; the whole validation has 2.5
  training::Loaders data = data_of();
  const auto saved =
      std::make_shared<ModelCheckpoint>(Options{.folder = folder / "run", .monitor = "val_loss"});
  training::Trainer trainer(
      {.max_epochs = 2, .callbacks = {std::make_shared<Raise>(), saved}, .signals = {SIGTERM}});
  trainer.fit(net, data);
  REQUIRE(trainer.interrupted() == SIGTERM);
  CHECK(saved->best_checkpoint() == "");
  CHECK(!std::filesystem::exists(folder / "run/best"));
  CHECK(!trainer.logged().contains("val_loss"));
}

TEST_CASE("model checkpoints: two of them have a state each") {
  const TemporaryFolder folder;
  const auto run = [&](int64_t epochs, const std::string& resume) {
    Net net;
    net.values = {9, 0.5, 0.1, 0.6, 0.7};
    training::Loaders data = data_of();
    const auto a = std::make_shared<ModelCheckpoint>(Options{.folder = folder / "a", .monitor = "val_loss"}),
               b = std::make_shared<ModelCheckpoint>(
                   Options{.folder = folder / "b", .monitor = "loss", .best = training::Best::highest});
    training::Trainer trainer({.max_epochs = epochs, .resume = resume, .callbacks = {a, b}});
    trainer.fit(net, data);
    return a->best_value();
  };
  CHECK(run(2, "") == doctest::Approx(0.1));
  CHECK(run(4, folder / "a") == doctest::Approx(0.1));
}

TEST_CASE("model checkpoints: epochs may end before the first validation, in a resumed run too") {
  const TemporaryFolder folder;
  const auto run = [&](int64_t steps, int64_t every, const std::string& resume) {
    Net net;
    training::Loaders data = data_of();
    training::Trainer trainer({.max_steps = steps,
                               .validate_every = every,
                               .resume = resume,
                               .callbacks = {std::make_shared<ModelCheckpoint>(Options{
                                   .folder = folder / "run", .every_steps = 5, .monitor = "val_loss"})}});
    trainer.fit(net, data);
  };
  CHECK_NOTHROW(run(12, 8, ""));  // 6 steps an epoch
  std::filesystem::remove_all(folder / "run");
  CHECK_NOTHROW(run(5, 4, ""));
  CHECK_NOTHROW(run(12, 4, folder / "run"));  // an epoch ends at step 6, the next validation is after 8
}

TEST_CASE("model checkpoints: the best of a value of training, with validations at other steps") {
  const TemporaryFolder folder;
  Net net;
  training::Loaders data = data_of();
  const auto saved = std::make_shared<ModelCheckpoint>(Options{.folder = folder / "run", .monitor = "loss"});
  training::Trainer trainer({.max_epochs = 3, .validate_every = 4, .callbacks = {saved}});
  trainer.fit(net, data);
  CHECK(saved->best_value() == trainer.logged().at("loss"));  // it falls
  CHECK(saved->best_checkpoint() == folder / "run/step-00000018");
}

TEST_CASE(
    "model checkpoints: what is left of a step at the end does not keep the steps before from being saved") {
  const TemporaryFolder folder;
  Net net;
  training::Loaders data = data_of();
  const auto saved = std::make_shared<ModelCheckpoint>(Options{.folder = folder / "run"});
  training::Trainer trainer({.max_epochs = 1, .accumulate = 4, .callbacks = {saved}});  // 6 batches
  trainer.fit(net, data);
  CHECK(saved->saved_step() == 1);
}

TEST_CASE("model checkpoints: callbacks after it have seen the validation of the step that is saved") {
  const TemporaryFolder folder;
  const auto save = [&](int64_t steps, const std::string& resume, std::shared_ptr<training::Callback> other) {
    Net net;
    training::Loaders data = data_of();
    training::Trainer trainer(
        {.max_steps = steps,
         .validate_every = 2,
         .resume = resume,
         .callbacks = {std::make_shared<ModelCheckpoint>(
                           Options{.folder = folder / "run", .every_steps = 4, .monitor = "val_loss"}),
                       other}});
    trainer.fit(net, data);
    return trainer.logged();
  };
  CHECK_NOTHROW(save(
      4, "",
      std::make_shared<training::ExponentialMovingAverage>(training::ExponentialMovingAverageOptions{})));
  std::filesystem::remove_all(folder / "run");
  const auto early = [] {
    return std::make_shared<training::EarlyStopping>(
        training::EarlyStoppingOptions{.monitor = "val_loss", .patience = 3});
  };
  const auto first = early(), second = early();
  save(4, "", first);
  save(4, folder / "run", second);
  CHECK(second->state() == first->state());
}

TEST_CASE("model checkpoints: a new run does not save where another one did, nor beside one that runs") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& resume) {
    Net net;
    training::Loaders data = data_of();
    training::Trainer trainer(
        {.max_steps = 2,
         .resume = resume,
         .callbacks = {std::make_shared<ModelCheckpoint>(Options{.folder = folder / "run"})}});
    trainer.fit(net, data);
  };
  run("");
  CHECK_THROWS_WITH_AS(run(""),
                       doctest::Contains("expected a folder without checkpoints for a new run, found them"),
                       ConfigError);
  CHECK_NOTHROW(run(folder / "run"));
  const dist::RunLock held(folder / "run");
  CHECK_THROWS_AS(run(folder / "run"), ConfigError);
}

TEST_CASE("model checkpoints: the k best are kept, in a resumed run too") {
  const TemporaryFolder folder;
  const auto run = [&](int64_t epochs, const std::string& resume) {
    Net net;
    net.values = {9, 0.5, 0.1, 0.6, 0.3, 0.7, 0.8, 0.9};  // from epoch 1 on
    training::Loaders data = data_of();
    training::Trainer trainer(
        {.max_epochs = epochs,
         .resume = resume,
         .callbacks = {std::make_shared<ModelCheckpoint>(
             Options{.folder = folder / "run", .keep = 1, .monitor = "val_loss", .keep_best = 3})}});
    trainer.fit(net, data);
  };
  using Steps = std::vector<int64_t>;
  run(5, "");
  CHECK(dist::list_checkpoints(folder / "run") == Steps{6, 12, 24, 30});  // 0.5, 0.1, 0.3 and the newest
  run(7, folder / "run");
  CHECK(dist::list_checkpoints(folder / "run") == Steps{6, 12, 24, 42});
  CHECK_THROWS_AS(ModelCheckpoint({.folder = "x", .keep_best = 2}), ConfigError);  // of which value
}
