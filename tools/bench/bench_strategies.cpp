// A training step of a small model by a strategy, in stages, or both: samples a second, and the bytes that
// each rank holds at most, by category. Prints one JSON object; run_strategies.py runs a matrix of them.
// Ranks are processes under mpirun, else threads.
//
//     mpirun -n 8 --oversubscribe build/release/bin/bench/bench_strategies --model gpt-lite --stages 4
//     build/release/bin/bench/bench_strategies --model deep --strategy full_shard --virtual-ranks 8

#include <json/json.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <mutex>

#include "dist/launch/launch.h"
#include "dist/train/engine/engine.h"
#include "models/dnn.h"
#include "models/gpt.h"
#include "optim/rules/adam.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"

namespace {

using namespace tessera;

struct Options {
  std::string model = "gpt-lite", strategy = "no_shard", schedule = "1f1b", offload;
  int stages = 0, virtual_ranks = 1;
  int64_t batch_size = 64, micro_batch_size = 4, steps = 4, skip = 1, checkpoint_interval = 0;
};

Options parse(CLI::App& app, int argc, char** argv) {
  Options o;
  app.add_option("--model", o.model, "wide, deep or gpt-lite, scaled down")
      ->check(CLI::IsMember({"wide", "deep", "gpt-lite"}))
      ->capture_default_str();
  app.add_option("--strategy", o.strategy)->capture_default_str();
  app.add_option("--stages", o.stages, "0: no pipeline")->capture_default_str();
  app.add_option("--schedule", o.schedule)->capture_default_str();
  app.add_option("--activation-checkpoint-interval", o.checkpoint_interval)->capture_default_str();
  app.add_option("--activation-offload", o.offload, "cpu, or a folder");
  app.add_option("--batch-size", o.batch_size, "samples of a step, of all ranks")->capture_default_str();
  app.add_option("--micro-batch-size", o.micro_batch_size)->capture_default_str();
  app.add_option("--steps", o.steps)->capture_default_str();
  app.add_option("--skip", o.skip, "steps before clock and peaks start")->capture_default_str();
  app.add_option("--virtual-ranks", o.virtual_ranks, "ranks as threads")->capture_default_str();
  app.parse(argc, argv);
  require<ConfigError>(o.steps > o.skip && o.skip >= 1, "--steps ", o.steps, " --skip ", o.skip,
                       ": expected at least one step after one that is skipped");
  return o;
}

constexpr int64_t vocabulary = 65;

models::DnnOptions size_of_dnn(const Options& o) {
  if (o.model == "wide") return {.layers = 8, .width = 512};
  return {.layers = 64, .width = 128};
}

models::GptOptions size_of_gpt() {
  return {.vocabulary = vocabulary,
          .block_size = 128,
          .layers = 8,
          .heads = 4,
          .width = 128,
          .dropout = 0.1,
          .bias = true,
          .tie_weights = false};
}

data::Batch batch_of(const Options& o) {
  data::Batch batch;
  if (o.model == "gpt-lite") {
    batch.x = Tensor::empty({o.micro_batch_size, size_of_gpt().block_size}, i64);
    for (int64_t i = 0; i < batch.x.numel(); ++i) batch.x.data<int64_t>()[i] = i * i % vocabulary;
    batch.y = batch.x;
  } else {
    batch.x = Tensor::empty({o.micro_batch_size, size_of_dnn(o).width}, f32);
    for (int64_t i = 0; i < batch.x.numel(); ++i)
      batch.x.data<float>()[i] = 0.1F * static_cast<float>(i % 13);
    batch.y = batch.x;
  }
  for (int64_t i = 0; i < o.micro_batch_size; ++i) batch.samples.push_back(i);
  return batch;
}

/// What a rank measured.
struct Measured {
  double seconds = 0;  // of a step
  double loss = 0;
  int64_t peak = 0;
  std::array<int64_t, memory_categories> by_category = {};  // at that moment
};

template <class Model>
Measured run(Model& model, const Options& o, dist::World& world, dist::UnitPolicy units) {
  training::TrainingConfig config{.train_batch_size = o.batch_size,
                                  .micro_batch_size = o.micro_batch_size,
                                  .strategy = dist::parse_strategy(o.strategy)};
  config.stages.stages = o.stages;
  config.stages.schedule = dist::parse_schedule_kind(o.schedule);
  config.stages.checkpointing.interval = o.checkpoint_interval;
  config.activation_offload = o.offload;
  training::Engine engine(
      model, {.config = config,
              .optimizer = [](const ParameterList& p) { return std::make_unique<optim::AdamW>(p, 1e-3); },
              .world = &world,
              .units = std::move(units),
              .layers = model.to_layered_model()});
  const std::vector<data::Batch> batches(static_cast<size_t>(engine.gradient_accumulation_steps()),
                                         batch_of(o));
  Measured measured;
  for (int64_t step = 0; step < o.steps; ++step) {
    if (step == o.skip) current_account()->reset_peaks();
    world.communicator().barrier().wait();
    const auto began = std::chrono::steady_clock::now();
    auto next = batches.begin();
    if (o.stages > 0)
      measured.loss = engine.train_batch(next, batches.end());
    else
      measured.loss = engine.train_batch(next, batches.end(), [&](const data::Batch& batch) {
        engine.begin_micro_batch();
        const training::ForwardScope scope(engine);
        return model.loss(batch.x, batch.y);
      });
    world.communicator().barrier().wait();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began;
    if (step >= o.skip) measured.seconds += passed.count() / static_cast<double>(o.steps - o.skip);
  }
  measured.peak = current_account()->total().peak;
  measured.by_category = current_account()->at_peak();
  return measured;
}

Measured run(const Options& o, dist::World& world) {
  if (o.model == "gpt-lite") {
    models::Gpt gpt(size_of_gpt());
    return run(gpt, o, world, dist::every<models::Block>());
  }
  models::Dnn dnn(size_of_dnn(o));
  return run(dnn, o, world, dist::every<nn::Linear>());
}

/// The measurements of all ranks as one object, on every rank.
Json::Value describe(const Options& o, dist::World& world, const Measured& own) {
  constexpr int64_t columns = 1 + memory_categories;
  const Tensor all = Tensor::empty({world.size(), columns}, i64), mine = Tensor::empty({columns}, i64);
  mine.data<int64_t>()[0] = own.peak;
  for (int c = 0; c < memory_categories; ++c)
    mine.data<int64_t>()[1 + c] = own.by_category[static_cast<size_t>(c)];
  world.communicator().all_gather(all, mine).wait();
  Json::Value v;
  v["model"] = o.model;
  v["strategy"] = o.strategy;
  v["stages"] = o.stages;
  v["activation_checkpoint_interval"] = Json::Int64(o.checkpoint_interval);
  v["activation_offload"] = o.offload;
  v["ranks"] = world.size();
  v["samples_per_second"] = static_cast<double>(o.batch_size) / own.seconds;
  v["loss"] = own.loss;
  for (int rank = 0; rank < world.size(); ++rank) {
    const int64_t* row = all.data<int64_t>() + rank * columns;
    Json::Value of_rank;
    of_rank["peak"] = Json::Int64(row[0]);
    for (int c = 0; c < memory_categories; ++c)
      of_rank[to_string(static_cast<MemoryCategory>(c))] = Json::Int64(row[1 + c]);
    v["memory"].append(of_rank);
  }
  return v;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A training step by strategy and stages");
  try {
    const Options o = parse(app, argc, argv);
    return dist::launch(
        [&](dist::World& world) {
          const Measured measured = run(o, world);
          const Json::Value result = describe(o, world, measured);
          if (world.rank() == 0) std::cout << result.toStyledString();
        },
        {.virtual_ranks = o.virtual_ranks});
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const Error& error) {
    std::cerr << "bench_strategies: " << error.what() << "\n";
    return 1;
  }
}
