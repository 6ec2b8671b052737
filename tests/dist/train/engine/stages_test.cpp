// An engine in stages of a pipeline, beside one on one device; and what it checkpoints.

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "autograd/debug/graph_dot.h"
#include "dist/train/config/training_fields.h"
#include "dist/train/engine/initialize.h"
#include "nn/checkpoint_modules.h"
#include "nn/layers/activation.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "nn/loss.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/fsdp/rank_errors.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

/// A network that states its layers and its loss.
struct Net : nn::Layer<Net> {
  nn::Sequential& layers = add(
      "layers", nn::Sequential{nn::Linear(3, 8), nn::Tanh(), nn::Linear(8, 8), nn::Tanh(), nn::Linear(8, 2)});
  Variable forward(const Variable& x) const { return layers(x); }
  nn::LayeredModel to_layered_model() const {
    nn::LayeredModel model{.layers = layers.to_layers(), .loss = {}, .result = {}};
    model.loss.run = [](const nn::LayerValues& outputs, const std::vector<Tensor>& targets) {
      return mse_loss(outputs.at(0), targets.at(0));
    };
    return model;
  }
};

/// A network without layers in a list.
struct Flat : nn::Layer<Flat> {
  nn::Linear& out = add<nn::Linear>("out", {.in = 3, .out = 2});
  Variable forward(const Variable& x) const { return out(x); }
};

std::shared_ptr<const data::Dataset> points() {
  const Tensor x = Tensor::empty({48, 3}, f32), y = Tensor::empty({48, 2}, f32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 3));
  for (int64_t i = 0; i < y.numel(); ++i) y.data<float>()[i] = std::cos(static_cast<float>(i * 5));
  return std::make_shared<data::TensorDataset>(x, y);
}

std::unique_ptr<optim::Optimizer> adam(const ParameterList& parameters) {
  return std::make_unique<optim::AdamW>(parameters, 1e-2);
}

/// A network of which the ranks train steps of 8 samples in two stages.
Initialized<Net> in_two_stages(Net& net, dist::World& world, int64_t micro_batches) {
  TrainingConfig config{.train_batch_size = 8, .accumulation_steps = micro_batches};
  config.stages.stages = 2;
  return initialize(net, {.config = config, .training_data = points(), .optimizer = adam, .world = &world});
}

struct Losses {
  std::vector<double> steps;
  double evaluated = 0;
};

/// Two epochs of steps of 8 samples in 4 micro-batches of all ranks, then the mean loss of all samples.
Losses train(dist::World* world, TrainingConfig config) {
  Net net;
  config.train_batch_size = 8;
  config.accumulation_steps =
      world && config.stages.stages > 0 && world->size() > config.stages.stages ? 2 : 4;
  config.gradient_clip = 0.5;
  auto [engine, optimizer, loader, schedule] =
      initialize(net, {.config = config, .training_data = points(), .optimizer = adam, .world = world});
  Losses losses;
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto batches = loader->begin();
    for (int step = 0; step < 6; ++step)
      losses.steps.push_back(config.stages.stages > 0
                                 ? engine.train_batch(batches, loader->end())
                                 : engine.train_batch(batches, loader->end(), [&](const data::Batch& b) {
                                     return mse_loss(engine(b.x), b.y);
                                   }));
  }
  losses.evaluated =
      config.stages.stages > 0
          ? engine.eval_batch(*loader)
          : engine.eval_batch(*loader, [&](const data::Batch& b) { return mse_loss(net(b.x), b.y); });
  return losses;
}

std::vector<std::string> differences(const Losses& found, const Losses& expected) {
  std::vector<std::string> problems;
  for (size_t i = 0; i < expected.steps.size(); ++i)
    if (!(std::abs(found.steps.at(i) - expected.steps[i]) < 1e-5))
      problems.push_back(text("loss ", i, ": expected ", expected.steps[i], ", got ", found.steps[i]));
  if (!(std::abs(found.evaluated - expected.evaluated) < 1e-5))
    problems.push_back(text("evaluated: expected ", expected.evaluated, ", got ", found.evaluated));
  return problems;
}

}  // namespace

TEST_CASE("engine: train_batch and eval_batch in stages have the losses of one device") {
  const Losses alone = train(nullptr, {});
  CHECK(alone.steps.at(0) != alone.steps.at(6));  // the same batches in another epoch
  for (const auto kind : {dist::ScheduleKind::one_f_one_b, dist::ScheduleKind::zb_h1})
    test::require_no_problems(2, [&](dist::World& world) {
      return differences(train(&world, {.stages = {.stages = 2, .schedule = kind, .partition = "uniform"}}),
                         alone);
    });
  test::require_no_problems(2, [&](dist::World& world) {
    return differences(train(&world, {.stages = {.stages = 2, .checkpointing = {.interval = 1}},
                                      .activation_checkpoint = "Tanh"}),
                       alone);
  });
  test::require_no_problems(4, [&](dist::World& world) {
    return differences(train(&world, {.strategy = dist::Strategy::full_shard, .stages = {.stages = 2}}),
                       alone);
  });
}

TEST_CASE("engine: a schedule from a file, and one that holds too much") {
  const TemporaryFolder folder;
  const std::string table = folder / "mine.csv";
  std::ofstream(table) << "0F0,0F1,0F2,0B0,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n";
  const Losses alone = train(nullptr, {});
  test::require_no_problems(2, [&](dist::World& world) {
    return differences(train(&world, {.stages = {.stages = 2, .schedule_file = table}}), alone);
  });
  const auto refused = [](const StageOptions& stages) {
    return test::errors_of(2, [&](dist::World& world) { train(&world, {.stages = stages}); }).at(0);
  };
  CHECK(contains(refused({.stages = 2, .schedule_file = table, .most_live = 2}),
                 "mine.csv': rank 0, slot 2 (0F2): 3 micro-batches are live, of at most 2"));
  CHECK(contains(refused({.stages = 2, .schedule = dist::ScheduleKind::gpipe, .most_live = 2}),
                 "schedule 'gpipe': rank 0, slot 2 (0F2): 3 micro-batches are live, of at most 2"));
  Resolved<TrainingConfig> config(training_fields());
  config.set("pipeline_schedule", table, {Source::file, "run.json:3"});
  CHECK(config->stages.schedule_file == table);
}

TEST_CASE("engine: an epoch that ends within a step in stages leaves no part of it") {
  test::require_no_problems(2, [](dist::World& world) {
    Net net;
    auto training = in_two_stages(net, world, 4);
    auto& engine = training.engine;
    std::vector<data::Batch> batches;
    for (const data::Batch& batch : *training.loader) batches.push_back(batch);
    auto next = batches.begin();
    const auto short_end = batches.begin() + 2;
    std::vector<std::string> problems;
    try {
      engine.train_batch(next, short_end);
      problems.push_back("expected an error for 2 of 4 batches");
    } catch (const ValueError&) {
    }
    next = batches.begin();
    engine.train_batch(next, batches.end());
    if (engine.global_steps() != 1 || engine.micro_steps() != 4)
      problems.push_back(text(engine.global_steps(), " steps, ", engine.micro_steps(), " micro-batches"));
    return problems;
  });
}

TEST_CASE("engine: eval_batch in stages is the mean over unequal shares of ranks") {
  std::vector<double> means(4), sums(4);
  dist::launch(
      [&](dist::World& world) {
        Net net, whole;
        auto training = in_two_stages(net, world, 1);
        nn::materialize(whole, cpu(), 42);
        // 3 samples of the first pipeline, 1 of the other.
        const int64_t count = training.engine.data_rank() == 0 ? 3 : 1;
        auto batches = training.loader->begin();
        const std::vector<data::Batch> own{(*batches).micro_batch(0, count)};
        const auto rank = static_cast<size_t>(world.rank());
        means[rank] = training.engine.eval_batch(own);
        sums[rank] = static_cast<double>(count) * mse_loss(whole(own[0].x), own[0].y).item();
      },
      {.virtual_ranks = 4, .timeout = std::chrono::seconds(60)});
  // Each pipeline has two ranks with its samples: 8 in all.
  const double expected = (sums[0] + sums[1] + sums[2] + sums[3]) / 8;
  for (const double mean : means) CHECK(mean == doctest::Approx(expected).epsilon(1e-6));
}

TEST_CASE("engine: a forward of the whole model in stages says what runs its layers") {
  test::require_no_problems(2, [](dist::World& world) -> std::vector<std::string> {
    Net net;
    auto training = in_two_stages(net, world, 1);
    const std::string message = message_of<ConfigError>([&] {
      training.engine(Variable(Tensor::zeros({2, 3})));
    });
    if (message ==
        "Engine: a forward of the whole model: in stages it is cut, and train_batch and eval_batch run its "
        "layers")
      return {};
    return {message};
  });
}

TEST_CASE("engine: a gradient in stages that is not finite has its name on every rank") {
  test::require_no_problems(2, [](dist::World& world) -> std::vector<std::string> {
    Net net;
    auto training = in_two_stages(net, world, 4);
    for (const NamedParameter& parameter : training.engine.optimizer().parameters())
      parameter.variable.value().fill_(NAN);
    auto batches = training.loader->begin();
    const std::string message =
        message_of<NonFiniteError>([&] { training.engine.train_batch(batches, training.loader->end()); });
    if (contains(message, "is that of 'layers.0.weight' on rank 0")) return {};
    return {message};
  });
}

TEST_CASE("engine: a full host store names the option of its budget") {
  test::require_no_problems(2, [](dist::World& world) -> std::vector<std::string> {
    Net net;
    TrainingConfig config{.train_batch_size = 8, .accumulation_steps = 4};
    config.stages = {.stages = 2, .checkpointing = {.interval = 1}};
    config.activation_offload = "cpu";
    config.activation_offload_bytes = 10;
    auto training =
        initialize(net, {.config = config, .training_data = points(), .optimizer = adam, .world = &world});
    auto batches = training.loader->begin();
    std::string message = "no error";
    try {
      training.engine.train_batch(batches, training.loader->end());
    } catch (const OutOfMemoryError& error) {
      message = error.what();
    } catch (const std::exception&) {
      return {};  // the other rank's error ended this one
    }
    if (message.starts_with("pipeline, ") &&
        contains(message, "micro-batch 0): activation_offload_bytes 10: memory limit of 10 bytes") &&
        contains(message, "0 is no limit") && !contains(message, "activation checkpointing"))
      return {};
    return {message};
  });
}

TEST_CASE("engine: metrics of the stages") {
  test::require_no_problems(2, [&](dist::World& world) {
    Net net;
    std::vector<std::string> problems;
    auto training = in_two_stages(net, world, 4);
    auto batches = training.loader->begin();
    training.engine.train_batch(batches, training.loader->end());
    const std::vector<dist::StageMetrics>& ranks = training.engine.pipeline()->metrics();
    if (ranks.size() != 2) return std::vector<std::string>{text("expected 2 ranks, got ", ranks.size())};
    if (ranks[0].most_live != 2 || ranks[1].most_live != 1)
      problems.push_back(text("live: ", ranks[0].most_live, " ", ranks[1].most_live));
    for (const dist::StageMetrics& rank : ranks)
      if (!(rank.busy_seconds > 0 && rank.busy_seconds <= rank.seconds && rank.idle() >= 0 &&
            rank.idle() < 1))
        problems.push_back(text("seconds ", rank.seconds, ", busy ", rank.busy_seconds));
    return problems;
  });
}

TEST_CASE("engine: another engine of the same model begins without the checkpointed modules of the first") {
  Net net;
  const auto checkpointed = [&net] {
    int64_t number = 0;
    net.for_each([&](const nn::Module& module) { number += module.is_checkpointed() ? 1 : 0; });
    return number;
  };
  nn::checkpoint_matching(net, "Tanh");
  const int64_t by_hand = checkpointed();
  for (int round = 0; round < 2; ++round) {
    Engine engine(
        net, {.config = {.train_batch_size = 8, .activation_checkpoint = "Linear|Tanh"}, .optimizer = adam});
    CHECK(checkpointed() > by_hand);
  }
  CHECK(checkpointed() == by_hand);
}

TEST_CASE("engine: modules that run again in backward, chosen by the configuration") {
  data::DataLoader loader(points(), {.batch_size = 8});
  const auto saved = [&](const TrainingConfig& given) {
    Net net;
    TrainingConfig config = given;
    config.train_batch_size = 8;
    Engine engine(net, {.config = config, .optimizer = adam});
    const data::Batch batch = *loader.begin();
    return saved_bytes(mse_loss(engine(batch.x), batch.y));
  };
  const int64_t all = saved({});
  CHECK(saved({.activation_checkpoint = "Linear|Tanh"}) < all);
  CHECK(saved({.activation_checkpoint = "Net"}) < all);
  CHECK(saved({.stages = {.checkpointing = {.interval = 1}}}) < all);
  CHECK(message_of<ConfigError>([&] { saved({.activation_checkpoint_keep = "linear"}); }) ==
        "activation_checkpoint_keep linear: expected activation_checkpoint_interval or activation_checkpoint "
        "beside it");
  CHECK(message_of<ConfigError>([&] {
          saved({.activation_checkpoint = "Block"});
        }).starts_with("activation checkpointing: 'Block' chooses no module of Net"));
  CHECK(message_of<ConfigError>([&] {
          Flat flat;
          Engine engine(flat,
                        {.config = {.train_batch_size = 8, .stages = {.checkpointing = {.interval = 1}}},
                         .optimizer = adam});
        }) ==
        "activation checkpointing: interval 1: Flat has no list of layers (nn::ModuleList, nn::Sequential); "
        "choose modules by kind or name among Flat, Linear");
}

TEST_CASE("engine: stages that cannot be are refused") {
  CHECK(message_of<ConfigError>([] { train(nullptr, {.stages = {.stages = 2}}); }) ==
        "pipeline_stages 2: expected a divisor of the 1 ranks");
  std::string message;
  try {
    dist::launch(
        [](dist::World& world) {
          Flat flat;
          initialize(flat, {.config = TrainingConfig{.train_batch_size = 8, .stages = {.stages = 2}},
                            .optimizer = adam,
                            .world = &world});
        },
        {.virtual_ranks = 2});
  } catch (const ConfigError& error) {
    message = error.what();
  }
  CHECK(message == "Engine: 2 stages: expected Flat as a list of layers (EngineOptions::layers), got none");
  Net net;
  Engine engine(net, {.config = {.train_batch_size = 8}, .optimizer = adam});
  data::DataLoader loader(points(), {.batch_size = 8});
  auto batches = loader.begin();
  CHECK_THROWS_WITH_AS(engine.train_batch(batches, loader.end()),
                       "Engine::train_batch: expected a loss, or an engine with stages", ConfigError);
  CHECK_THROWS_WITH_AS(engine.eval_batch(loader),
                       "Engine::eval_batch: expected a loss, or an engine with stages", ConfigError);
}
