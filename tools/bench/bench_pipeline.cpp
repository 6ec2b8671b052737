// Trains a GPT in pipeline stages and prints, as one JSON object, speed, memory and the share of a step spent
// waiting: the counterpart of peer_pipeline.py. Ranks are processes under mpirun, else threads; `--single` is
// one process without dist/, on the same micro-batches.
//
//     mpirun -n 2 build/release/bin/bench/bench_pipeline --schedule 1f1b
//     build/release/bin/bench/bench_pipeline --single --threads 2
//
// With --plain every rank builds the whole model and then keeps its stages, in place of building these alone:
//
//     build/release/bin/bench/bench_pipeline --virtual-ranks 4 --plain

#include <json/json.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <numeric>

#include "autograd/functions/elementwise/binary.h"
#include "dist/launch/launch.h"
#include "dist/pipeline/run/pipeline.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace tessera;

struct Options {
  std::string schedule = "1f1b", partition = "profile";
  int virtual_ranks = 1, threads = 0, chunks = 0, micro_batches = 8;
  int64_t micro_batch_size = 1, layers = 12, width = 512, heads = 8, block_size = 256;
  int64_t steps = 8, skip = 2, checkpoint_interval = 0;
  bool is_single = false, is_plain = false;
  uint64_t seed = 1;
};

Options parse(CLI::App& app, int argc, char** argv) {
  Options o;
  app.add_flag("--single", o.is_single, "one process without a pipeline");
  app.add_flag("--plain", o.is_plain, "each rank builds the whole model before it is cut");
  app.add_option("--schedule", o.schedule, dist::names_of_schedules())->capture_default_str();
  app.add_option("--partition-method", o.partition)->capture_default_str();
  app.add_option("--chunks", o.chunks, "stages of a rank; 0: the schedule's")->capture_default_str();
  app.add_option("--virtual-ranks", o.virtual_ranks, "ranks as threads")->capture_default_str();
  app.add_option("--threads", o.threads,
                 "of --single: computing threads (default: the cores of this process)");
  app.add_option("--micro-batches", o.micro_batches)->capture_default_str();
  app.add_option("--micro-batch-size", o.micro_batch_size)->capture_default_str();
  app.add_option("--n-layer", o.layers)->capture_default_str();
  app.add_option("--n-embd", o.width)->capture_default_str();
  app.add_option("--n-head", o.heads)->capture_default_str();
  app.add_option("--block-size", o.block_size)->capture_default_str();
  app.add_option("--activation-checkpoint-interval", o.checkpoint_interval)->capture_default_str();
  app.add_option("--steps", o.steps)->capture_default_str();
  app.add_option("--skip", o.skip, "steps before the clock starts")->capture_default_str();
  app.add_option("--seed", o.seed)->capture_default_str();
  app.parse(argc, argv);
  require<ConfigError>(o.steps > o.skip && o.skip >= 0, "--steps ", o.steps, " --skip ", o.skip,
                       ": expected at least one step after those skipped");
  return o;
}

constexpr int64_t vocabulary = 65;

Tensor random_ids(const Options& o, uint64_t key) {
  const Tensor uniform = Tensor::empty({o.micro_batch_size, o.block_size}, f32);
  init::uniform(0, vocabulary).fill(uniform, key, uniform.shape());
  const Tensor ids = Tensor::empty(uniform.shape(), i64);
  for (int64_t k = 0; k < uniform.numel(); ++k)
    ids.data<int64_t>()[k] =
        std::min<int64_t>(vocabulary - 1, static_cast<int64_t>(uniform.data<float>()[k]));
  return ids;
}

std::vector<dist::MicroBatch> random_batches(const Options& o) {
  std::vector<dist::MicroBatch> batches(static_cast<size_t>(o.micro_batches));
  for (size_t m = 0; m < batches.size(); ++m) {
    batches[m].inputs = {random_ids(o, o.seed + 2 * m)};
    batches[m].targets = {random_ids(o, o.seed + 2 * m + 1)};
  }
  return batches;
}

models::GptOptions model_options(const Options& o) {
  return {.vocabulary = vocabulary,
          .block_size = o.block_size,
          .layers = o.layers,
          .heads = o.heads,
          .width = o.width,
          .bias = true,
          .qkv_bias = true,
          .tie_weights = false};
}

/// Times steps; `step` takes one and returns its loss.
Json::Value measure(const Options& o, const std::function<double()>& step) {
  std::vector<double> seconds;
  Json::Value result;
  for (int64_t i = 0; i < o.steps; ++i) {
    const auto began = std::chrono::steady_clock::now();
    result["loss"] = step();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  std::vector<double> timed(seconds.begin() + o.skip, seconds.end());
  const double sum = std::accumulate(timed.begin(), timed.end(), 0.0);
  std::nth_element(timed.begin(), timed.begin() + std::ssize(timed) / 2, timed.end());
  result["program"] = "bench_pipeline";
  result["unit"] = "samples";
  result["rate"] =
      static_cast<double>(o.micro_batches * o.micro_batch_size) * static_cast<double>(timed.size()) / sum;
  result["median_step_ms"] = 1e3 * timed[timed.size() / 2];
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  result["peak_rss_bytes"] = Json::Int64(usage.ru_maxrss * 1024);
  result["activation_bytes"] = Json::Int64(current_account()->count(MemoryCategory::activation).peak);
  return result;
}

void print(Json::Value result, const Options& o, int ranks) {
  result["ranks"] = ranks;
  result["schedule"] = o.is_single ? "single" : o.schedule;
  result["micro_batches"] = o.micro_batches;
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "";
  std::cout << Json::writeString(builder, result) << std::endl;
}

void run_single(const Options& o) {
  if (o.threads > 0) set_num_threads(o.threads);
  models::Gpt gpt(model_options(o));
  nn::materialize(gpt, cpu(), o.seed);
  optim::AdamW adam(gpt.parameters(), {.lr = 1e-4});
  const std::vector<dist::MicroBatch> batches = random_batches(o);
  const double share = 1.0 / o.micro_batches;
  print(measure(o,
                [&] {
                  double total = 0;
                  for (const dist::MicroBatch& batch : batches) {
                    const Variable loss = gpt.loss(batch.inputs[0], batch.targets[0]) * share;
                    loss.backward();
                    total += loss.item();
                  }
                  adam.step();
                  adam.zero_grad();
                  return total;
                }),
        o, 1);
}

/// Of all ranks: the largest, and the mean.
void add_over_ranks(Json::Value& result, const std::string& name, int64_t bytes, dist::World& world) {
  const Tensor most = Tensor::from({static_cast<double>(bytes)}), mean = most.clone();
  world.communicator().all_reduce(most, dist::Reduction::max).wait();
  world.communicator().all_reduce(mean, dist::Reduction::avg).wait();
  result[name]["most"] = Json::Int64(most.data<double>()[0]);
  result[name]["mean"] = Json::Int64(mean.data<double>()[0]);
}

void run_rank(const Options& o, dist::World& world) {
  models::Gpt gpt(model_options(o));
  if (o.is_plain) nn::materialize(gpt, world.device(), o.seed);
  const nn::LayeredModel layers = gpt.to_layered_model();
  const Tensor ids = Tensor::empty({o.micro_batch_size, o.block_size}, i64, meta());
  dist::Pipeline pipeline(gpt, layers,
                          {.mesh = dist::pipeline_mesh(world, world.size()),
                           .schedule = dist::parse_schedule_kind(o.schedule),
                           .chunks = o.chunks,
                           .partition = dist::parse_partition_method(o.partition),
                           .costs = dist::layer_costs(layers, {Variable(ids)}, {ids}),
                           .checkpointing = {.interval = o.checkpoint_interval},
                           .micro_batches = o.micro_batches});
  if (!o.is_plain) nn::materialize(gpt, world.device(), o.seed);
  const int64_t built = current_account()->total().peak;
  optim::AdamW adam(pipeline.parameters(), {.lr = 1e-4});
  const std::vector<dist::MicroBatch> batches = random_batches(o);
  Json::Value result = measure(o, [&] {
    const double loss = pipeline.train_step(batches);
    adam.step();
    adam.zero_grad();
    return loss;
  });
  add_over_ranks(result, "build_bytes", built, world);
  add_over_ranks(result, "memory_bytes", current_account()->total().peak, world);
  result["plain"] = o.is_plain;
  // The largest of the ranks' memory.
  const Tensor most = Tensor::from({result["peak_rss_bytes"].asDouble()});
  world.communicator().all_reduce(most, dist::Reduction::max).wait();
  result["peak_rss_bytes"] = Json::Int64(most.data<double>()[0]);
  for (const int64_t boundary : pipeline.boundaries()) result["boundaries"].append(Json::Int64(boundary));
  if (world.rank() == 0) print(std::move(result), o, world.size());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Speed of training in pipeline stages, as one JSON object", "bench_pipeline");
  try {
    const Options options = parse(app, argc, argv);
    if (options.is_single)
      run_single(options);
    else
      dist::launch([&](dist::World& world) { run_rank(options, world); },
                   {.virtual_ranks = options.virtual_ranks});
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const Error& error) {
    std::cerr << "bench_pipeline: " << error.what() << "\n";
    return 2;
  }
}
