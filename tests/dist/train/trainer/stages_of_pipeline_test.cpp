// A Trainer in stages of a pipeline, beside one on one device.

#include <doctest/doctest.h>

#include <cmath>

#include "data/datasets/dataset.h"
#include "dist/train/callbacks/exponential_moving_average.h"
#include "dist/train/callbacks/model_checkpoint.h"
#include "dist/train/trainer/trainer.h"
#include "nn/layers/activation.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "nn/loss.h"
#include "optim/rules/adam.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

/// A network that states its layers.
struct Net : TaskOf<Net> {
  nn::Sequential& layers = add(
      "layers", nn::Sequential{nn::Linear(3, 8), nn::ReLU(), nn::Linear(8, 8), nn::ReLU(), nn::Linear(8, 2)});
  std::vector<double> losses;

  Variable forward(const Variable& x) const { return layers(x); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = mse_loss((*this)(batch.x), batch.y);
    log("loss", loss);
    return loss;
  }
  void validation_step(const data::Batch& batch, int64_t) override {
    log("val_loss", mse_loss((*this)(batch.x), batch.y));
  }
  void test_step(const data::Batch& batch, int64_t) override {
    log("test_loss", mse_loss((*this)(batch.x), batch.y));
  }
  Tensor predict_step(const data::Batch& batch, int64_t) override { return (*this)(batch.x).value(); }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::AdamW>(parameters, 1e-2)};
  }
  nn::LayeredModel layered_model() override {
    nn::LayeredModel model{.layers = layers.to_layers(), .loss = {}, .result = {}};
    model.loss.run = [](const nn::LayerValues& outputs, const std::vector<Tensor>& targets) {
      return mse_loss(outputs.at(0), targets.at(0));
    };
    return model;
  }
};

/// A network that does not.
struct Unlisted : TaskOf<Unlisted> {
  nn::Linear& out = add<nn::Linear>("out", {.in = 3, .out = 2});
  Variable forward(const Variable& x) const { return out(x); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    return mse_loss((*this)(batch.x), batch.y);
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::AdamW>(parameters, 1e-2)};
  }
};

struct Points : DataModule {
  explicit Points(int ranks, int64_t held_out = 20) : per_rank(8 / ranks), held_out(held_out) {}
  int64_t per_rank;  // samples of a micro-batch
  int64_t held_out;  // samples of the validation

  static Tensor numbers(const Shape& shape, int64_t key) {
    const Tensor values = Tensor::empty(shape, f32);
    for (int64_t i = 0; i < values.numel(); ++i)
      values.data<float>()[i] = static_cast<float>((i * i * 7 + key * 3) % 11) / 5 - 1;
    return values;
  }
  LoaderSpec loader(int64_t samples, int64_t key) const {
    return {.dataset = std::make_shared<data::TensorDataset>(numbers({samples, 3}, key),
                                                             numbers({samples, 2}, key + 1)),
            .options = {.batch_size = per_rank, .shuffle = true}};
  }
  std::optional<LoaderSpec> train_dataloader() override { return loader(64, 1); }
  std::optional<LoaderSpec> val_dataloader() override { return loader(held_out, 5); }
  std::optional<LoaderSpec> test_dataloader() override { return loader(20, 6); }
  std::optional<LoaderSpec> predict_dataloader() override { return loader(20, 6); }
};

/// The validation losses of a fit, and its last value of "loss".
struct Losses : Callback {
  std::vector<double> values;
  void on_validation_epoch_end(Trainer& trainer, Task&) override {
    values.push_back(trainer.logged().at("val_loss"));
  }
};

std::vector<double> fit(dist::World* world, const StageOptions& stages, TrainerOptions options = {},
                        int64_t held_out = 20) {
  const int ranks = world ? data_ranks(stages, world->size()) : 1;
  const auto losses = std::make_shared<Losses>();
  options.max_epochs = 3;
  options.accumulate = 4;
  options.gradient_clip = 0.5;
  options.world = world;
  options.stages = stages;
  options.callbacks.push_back(losses);
  Trainer trainer(std::move(options));
  Net net;
  Points points(ranks, held_out);
  trainer.fit(net, points);
  return losses->values;
}

std::vector<std::string> differences(const std::vector<double>& found, const std::vector<double>& expected) {
  std::vector<std::string> problems;
  if (found.size() != expected.size())
    return {text("expected ", expected.size(), " losses, got ", found.size())};
  for (size_t i = 0; i < found.size(); ++i)
    if (!(std::abs(found[i] - expected[i]) < 1e-5))
      problems.push_back(text("loss ", i, ": expected ", expected[i], ", got ", found[i]));
  return problems;
}

}  // namespace

TEST_CASE("stages: a Trainer in stages has the losses of one device, alone and with every strategy") {
  const std::vector<double> alone = fit(nullptr, {});
  REQUIRE(alone.size() == 3);
  test::require_no_problems(2, [&](dist::World& world) {
    return differences(fit(&world, {.stages = 2, .partition = "uniform"}), alone);
  });
  for (const char* strategy : {"ddp", "shard_optim", "shard_grad_op", "full_shard"})
    test::require_no_problems(4, [&](dist::World& world) {
      return differences(
          fit(&world, {.stages = 2, .schedule = dist::ScheduleKind::zb_h1}, {.strategy = strategy}), alone);
    });
}

TEST_CASE("stages: a validation counts each sample once, whatever the ranks' shares of the last batch") {
  for (const int64_t held_out : {10, 17, 19, 21}) {
    CAPTURE(held_out);
    const std::vector<double> alone = fit(nullptr, {}, {}, held_out);
    test::require_no_problems(
        4, [&](dist::World& world) { return differences(fit(&world, {.stages = 2}, {}, held_out), alone); });
    test::require_no_problems(
        2, [&](dist::World& world) { return differences(fit(&world, {}, {}, held_out), alone); });
  }
}

namespace {

/// What a trainer gives after a fit: its validation, its test, and its predictions in the data's order.
struct AfterFit {
  double val_loss = 0, test_loss = 0;
  std::vector<Tensor> predictions;
};

AfterFit after_fit(dist::World* world, const TrainerOptions& options) {
  TrainerOptions own = options;
  own.max_epochs = 2;
  own.accumulate = 4;
  own.world = world;
  Net net;
  Points points(world ? data_ranks(own.stages, world->size()) : 1, 19);
  Trainer(own).fit(net, points);
  Trainer trainer(own);  // a fit's own trainer and another one are alike
  return {trainer.validate(net, points).at("val_loss"), trainer.test(net, points).at("test_loss"),
          trainer.predict(net, points)};
}

std::vector<float> numbers_of(const std::vector<Tensor>& batches) {
  std::vector<float> all;
  for (const Tensor& batch : batches) {
    const Tensor rows = batch.contiguous();
    all.insert(all.end(), rows.data<float>(), rows.data<float>() + rows.numel());
  }
  return all;
}

/// The rows of predictions that a rank should have: its even share of each batch.
std::vector<float> rows_of_rank(const std::vector<Tensor>& alone, int rank, int ranks) {
  std::vector<Tensor> own;
  for (const Tensor& batch : alone) {
    const int64_t share = batch.size(0) / ranks;
    own.push_back(batch.narrow(0, rank * share, share));
  }
  return numbers_of(own);
}

std::vector<std::string> evaluation_differences(dist::World& world, const TrainerOptions& options,
                                                const AfterFit& alone, double tolerance) {
  const AfterFit found = after_fit(&world, options);
  std::vector<std::string> problems;
  const auto compare = [&](const char* name, double value, double expected) {
    if (!(std::abs(value - expected) < tolerance))
      problems.push_back(text(name, ": expected ", expected, ", got ", value));
  };
  compare("val_loss", found.val_loss, alone.val_loss);
  compare("test_loss", found.test_loss, alone.test_loss);
  const int columns = data_ranks(options.stages, world.size());
  const int column = data_rank(options.stages, world.rank(), world.size());
  const bool is_v = options.stages.schedule == dist::ScheduleKind::zb_v;  // its last stage is on rank 0
  const bool is_last = world.rank() / columns == (is_v ? 0 : options.stages.stages - 1);
  const std::vector<float> expected =
      is_last ? rows_of_rank(alone.predictions, column, columns) : std::vector<float>();
  const std::vector<float> rows = numbers_of(found.predictions);
  if (rows.size() != expected.size())
    return {text("rank ", world.rank(), ": expected ", expected.size(), " numbers of predictions, got ",
                 rows.size())};
  for (size_t i = 0; i < rows.size(); ++i) compare("prediction", rows[i], expected[i]);
  return problems;
}

}  // namespace

TEST_CASE("stages: after the fit validate, test and predict run through its stages") {
  const AfterFit alone = after_fit(nullptr, {});
  CHECK(alone.predictions.size() == 3);  // 8, 8 and 4 of 20 samples
  for (const dist::ScheduleKind schedule :
       {dist::ScheduleKind::one_f_one_b, dist::ScheduleKind::zb_v, dist::ScheduleKind::interleaved})
    test::require_no_problems(2, [&](dist::World& world) {
      return evaluation_differences(world, {.stages = {.stages = 2, .schedule = schedule}}, alone, 1e-5);
    });
  for (const char* strategy : {"ddp", "shard_grad_op", "full_shard"})
    test::require_no_problems(4, [&](dist::World& world) {
      return evaluation_differences(world, {.strategy = strategy, .stages = {.stages = 2}}, alone, 1e-5);
    });
}

TEST_CASE("stages: predictions need no targets, of a batch of one sample too") {
  struct Inputs : data::Dataset {
    int64_t size() const override { return 3; }
    data::Example get(int64_t index) const override {
      return {Points::numbers({3, 3}, 6).narrow(0, index, 1).reshape({3}), Tensor()};
    }
  };
  struct WithoutTargets : Points {
    using Points::Points;
    std::optional<LoaderSpec> predict_dataloader() override {
      return LoaderSpec{.dataset = std::make_shared<Inputs>(), .options = {.batch_size = 1}};
    }
  };
  const auto predicted = [](dist::World* world) {
    TrainerOptions options{.max_epochs = 1, .accumulate = 4, .world = world};
    if (world) options.stages.stages = 2;
    Net net;
    WithoutTargets points(1);
    Trainer trainer(options);
    trainer.fit(net, points);
    return numbers_of(trainer.predict(net, points));
  };
  const std::vector<float> alone = predicted(nullptr);
  REQUIRE(alone.size() == 6);
  test::require_no_problems(2, [&](dist::World& world) {
    const std::vector<float> found = predicted(&world);
    std::vector<std::string> problems;
    if (found.size() != (world.rank() == 1 ? 6u : 0u)) return std::vector{text(found.size(), " numbers")};
    for (size_t i = 0; i < found.size(); ++i)
      if (!(std::abs(found[i] - alone[i]) < 1e-5f)) problems.push_back(text("number ", i));
    return problems;
  });
}

TEST_CASE("stages: in bf16 every stage of an evaluation computes in bf16, one without parameters too") {
  const AfterFit alone = after_fit(nullptr, {.precision = PrecisionMode::bf16});
  test::require_no_problems(5, [&](dist::World& world) {  // the second layer is a stage of its own
    return evaluation_differences(
        world, {.precision = PrecisionMode::bf16, .stages = {.stages = 5, .partition = "uniform"}}, alone,
        2e-2);
  });
}

TEST_CASE("stages: a cut model is evaluated by a trainer with its stages alone, and trained by none") {
  test::require_no_problems(2, [](dist::World& world) {
    const TrainerOptions options{.max_epochs = 1, .accumulate = 4, .stages = {.stages = 2}, .world = &world};
    Net net;
    Points points(1);
    Trainer(options).fit(net, points);
    TrainerOptions whole = options;
    whole.stages.stages = 0;
    Trainer other(whole);
    std::vector<std::string> problems;
    const auto check = [&](const std::string& caller, const auto& call) {
      const std::string message = message_of<ConfigError>(call);
      if (!message.starts_with("Trainer::" + caller + ": Net is cut into 2 stages") ||
          !contains(message, "expected a trainer with as many (TrainerOptions::stages)"))
        problems.push_back(text(caller, ": ", message));
    };
    check("validate", [&] { other.validate(net, points); });
    check("test", [&] { other.test(net, points); });
    check("predict", [&] { other.predict(net, points); });
    const std::string message = message_of<ConfigError>([&] { Trainer(whole).fit(net, points); });
    if (!contains(message, "Net is cut into stages, of which this rank holds its own alone"))
      problems.push_back("fit: " + message);
    Trainer(options).validate(net, points);  // the error has ended nothing
    return problems;
  });
}

TEST_CASE("stages: padded rows of a regression have no part in training") {
  // 61 samples in batches of 8: the last one has 5, in shares of 4 and 1, or of 2, 2, 1 and 0.
  const auto trained = [](dist::World* world, const char* strategy) {
    struct Odd : Points {
      using Points::Points;
      std::optional<LoaderSpec> train_dataloader() override { return loader(61, 1); }
    };
    const int ranks = world ? world->size() : 1;
    Net net;
    Odd points(ranks);
    const auto losses = std::make_shared<Losses>();
    TrainerOptions options{.max_epochs = 3, .callbacks = {losses}, .world = world};
    if (world) options.strategy = strategy;
    Trainer(std::move(options)).fit(net, points);
    return losses->values;
  };
  const std::vector<double> alone = trained(nullptr, "");
  for (const int ranks : {2, 4})
    for (const char* strategy : {"ddp", "full_shard"})
      test::require_no_problems(
          ranks, [&](dist::World& world) { return differences(trained(&world, strategy), alone); });
}

TEST_CASE("stages: a run is resumed on other stages, with averages of the weights") {
  const TemporaryFolder folder;
  const auto options = [&](const std::string& resume) {
    return TrainerOptions{
        .resume = resume,
        .callbacks = {
            std::make_shared<ExponentialMovingAverage>(ExponentialMovingAverageOptions{.decay = 0.9}),
            std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.folder = folder / "run", .keep = 10})}};
  };
  std::vector<double> whole;
  test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
    const std::vector<double> losses = fit(&world, {.stages = 2}, options(""));
    if (world.rank() == 0) whole = losses;
    return {};
  });
  const std::vector<double> rest(whole.begin() + 1, whole.end());
  test::require_no_problems(4, [&](dist::World& world) {
    return differences(fit(&world, {.stages = 4}, options(folder / "run/step-00000002")), rest);
  });
  CHECK(differences(fit(nullptr, {}, options(folder / "run/step-00000002")), rest).empty());
}

TEST_CASE("stages: what does not fit is an error") {
  const auto message = [](const StageOptions& stages, bool is_listed) {
    std::string found;
    try {
      dist::launch(
          [&](dist::World& world) {
            Trainer trainer({.max_epochs = 1, .stages = stages, .world = &world});
            Points points(1);
            if (is_listed) {
              Net net;
              trainer.fit(net, points);
            } else {
              Unlisted net;
              trainer.fit(net, points);
            }
          },
          {.virtual_ranks = 2});
    } catch (const ConfigError& error) {
      found = error.what();
    }
    return found;
  };
  CHECK(message({.stages = 3}, true) == "pipeline_stages 3: expected a divisor of the 2 ranks");
  CHECK(message({.stages = 2}, false) ==
        "stages: Unlisted states no list of layers: expected Task::layered_model, with the model's layers "
        "(nn::LayerSpec) and its loss");
  CHECK(message({.stages = 2, .partition = "0,9"}, true)
            .starts_with("partition boundaries: expected 3 numbers that ascend from 0 to 5"));
}
