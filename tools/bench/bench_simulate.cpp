// Predicted steps beside measured ones: time, and the bytes that each rank holds at most. Ranks are threads
// of one process with one computing thread each, or processes under mpirun. The prediction knows the time of
// each layer alone, measured on all ranks at once, and the rates of memory and messages; the step is then
// run.
//
//     build/release/bin/bench/bench_simulate
//     build/release/bin/bench/bench_simulate --only gpt-lite

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <sstream>

#include "dist/launch/launch.h"
#include "dist/pipeline/run/pipeline.h"
#include "dist/simulate/step.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/number_text.h"

namespace {

using namespace tessera;
using dist::ScheduleKind;
using dist::Strategy;

constexpr int64_t vocabulary = 65;
constexpr int ranks = 2;

/// What is predicted and then run.
struct Case {
  const char* name;
  int64_t layers, width, block_size, batch;
  dist::SimulationOptions options;
};

std::vector<Case> cases() {
  const auto stages = [](ScheduleKind kind, int micro_batches) {
    return dist::SimulationOptions{.stages = ranks, .schedule = kind, .micro_batches = micro_batches};
  };
  const auto sharded = [](Strategy strategy) {
    return dist::SimulationOptions{
        .shards = ranks, .strategy = strategy, .micro_batches = 2, .unit_kind = "Block"};
  };
  std::vector<Case> all{
      {"gpt-lite, 1f1b", 12, 768, 512, 1, stages(ScheduleKind::one_f_one_b, 4)},
      {"width 512, 1f1b", 12, 512, 256, 1, stages(ScheduleKind::one_f_one_b, 8)},
      {"width 384, gpipe", 6, 384, 256, 2, stages(ScheduleKind::gpipe, 4)},
      {"width 384, interleaved", 6, 384, 256, 2, stages(ScheduleKind::interleaved, 4)},
      {"width 384, zb-h1", 6, 384, 256, 2, stages(ScheduleKind::zb_h1, 6)},
      {"width 384, 1f1b, checkpoints", 6, 384, 256, 2, stages(ScheduleKind::one_f_one_b, 6)},
      {"width 384, no_shard", 6, 384, 256, 2, sharded(Strategy::no_shard)},
      {"width 384, full_shard", 6, 384, 256, 2, sharded(Strategy::full_shard)}};
  all[5].options.checkpointing.interval = 1;
  return all;
}

models::GptOptions model_options(const Case& c) {
  return {.vocabulary = vocabulary,
          .block_size = c.block_size,
          .layers = c.layers,
          .heads = c.width / 64,
          .width = c.width,
          .bias = true,
          .qkv_bias = true,
          .tie_weights = false};
}

Tensor ids_of(const Case& c, int64_t first) {
  const Tensor ids = Tensor::empty({c.batch, c.block_size}, i64);
  for (int64_t i = 0; i < ids.numel(); ++i) ids.data<int64_t>()[i] = (first + 7 * i) % vocabulary;
  return ids;
}

std::vector<dist::MicroBatch> batches_of(const Case& c) {
  std::vector<dist::MicroBatch> batches;
  for (int64_t m = 0; m < c.options.micro_batches; ++m)
    batches.push_back({.inputs = {ids_of(c, m)}, .targets = {ids_of(c, m + 1)}});
  return batches;
}

/// The same model on meta and with values; the seconds are means over the ranks, which measure at once.
dist::SimulatedStep predict(const Case& c, dist::World& world) {
  models::Gpt on_meta(model_options(c)), gpt(model_options(c));
  const Tensor ids = Tensor::empty({c.batch, c.block_size}, i64, meta());
  dist::ModelProfile profile(on_meta.to_layered_model(), {Variable(ids)}, {ids});
  dist::MachineRates rates = measure_machine(world);
  nn::materialize(gpt, cpu(), 1);
  world.communicator().barrier();
  profile.measure(gpt.to_layered_model(), {Variable(ids_of(c, 0))}, {ids_of(c, 1)});
  const Tensor seconds = Tensor::from(profile.seconds());
  world.communicator().all_reduce(seconds, dist::Reduction::avg).wait();
  profile.set_seconds({seconds.data<double>(), seconds.data<double>() + seconds.numel()});
  return simulate_step(profile, c.options, rates);
}

struct Measured {
  double seconds = 0;      ///< the median
  int64_t peak_bytes = 0;  ///< of this rank
};

Measured time_steps(int steps, dist::World& world, const std::function<void()>& step) {
  std::vector<double> seconds;
  for (int i = 0; i < steps + 2; ++i) {
    if (i == 2) current_account()->reset_peaks();
    world.communicator().barrier();
    const auto began = std::chrono::steady_clock::now();
    step();
    if (i >= 2)
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + std::ssize(seconds) / 2, seconds.end());
  const Tensor slowest = Tensor::from({seconds[seconds.size() / 2]});
  world.communicator().all_reduce(slowest, dist::Reduction::max).wait();
  return {slowest.data<double>()[0], current_account()->total().peak};
}

Measured run_stages(const Case& c, dist::World& world, int steps) {
  models::Gpt gpt(model_options(c));
  dist::Pipeline pipeline(gpt, gpt.to_layered_model(),
                          {.mesh = dist::pipeline_mesh(world, c.options.stages),
                           .schedule = c.options.schedule,
                           .partition = c.options.partition,
                           .checkpointing = c.options.checkpointing,
                           .micro_batches = c.options.micro_batches});
  nn::materialize(gpt, cpu(), 1);
  optim::AdamW adam(pipeline.parameters(), {.lr = 1e-4});
  const std::vector<dist::MicroBatch> batches = batches_of(c);
  return time_steps(steps, world, [&] {
    pipeline.train_step(batches);
    adam.step();
    adam.zero_grad();
  });
}

Measured run_shards(const Case& c, dist::World& world, int steps) {
  models::Gpt gpt(model_options(c));
  dist::Sharding& sharding = dist::shard(
      gpt,
      {.mesh = dist::Mesh(world), .strategy = c.options.strategy, .units = dist::every<models::Block>()});
  nn::materialize(gpt, cpu(), 1);
  optim::AdamW adam(gpt.parameters(), {.lr = 1e-4});
  const std::vector<dist::MicroBatch> batches = batches_of(c);
  return time_steps(steps, world, [&] {
    for (size_t m = 0; m < batches.size(); ++m) {
      std::optional<dist::NoSync> more;
      if (m + 1 < batches.size()) more.emplace(sharding);
      gpt.loss(batches[m].inputs[0], batches[m].targets[0]).backward();
    }
    adam.step();
    adam.zero_grad();
  });
}

std::string cell(const std::string& content, size_t width) {
  return content + std::string(content.size() < width ? width - content.size() : 1, ' ');
}

std::string off_by(double predicted, double measured) {
  return fixed(100 * (predicted / measured - 1), 1) + " %";
}

void run_case(const Case& c, dist::World& world, int steps) {
  const dist::SimulatedStep predicted = predict(c, world);
  const Measured measured = c.options.stages > 1 ? run_stages(c, world, steps) : run_shards(c, world, steps);
  // The rank with the largest difference of bytes.
  const size_t index = c.options.stages > 1 ? static_cast<size_t>(world.rank()) : 0;
  const auto expected = static_cast<double>(predicted.ranks[index].peak_bytes());
  const Tensor bytes = Tensor::from({expected, static_cast<double>(measured.peak_bytes)});
  std::vector<Tensor> all;
  const Tensor gathered = Tensor::zeros({2 * world.size()}, f64);
  world.communicator().all_gather(gathered, bytes).wait();
  if (world.rank() != 0) return;
  const double* rows = gathered.data<double>();
  size_t worst = 0;
  for (size_t r = 1; r < static_cast<size_t>(world.size()); ++r)
    if (std::abs(rows[2 * r] / rows[2 * r + 1] - 1) > std::abs(rows[2 * worst] / rows[2 * worst + 1] - 1))
      worst = r;
  const double held = rows[2 * worst], was = rows[2 * worst + 1];
  std::cout << cell(c.name, 32) << cell(fixed(1e3 * predicted.seconds, 1) + " ms", 14)
            << cell(fixed(1e3 * measured.seconds, 1) + " ms", 14)
            << cell(off_by(predicted.seconds, measured.seconds), 12) << cell(with_prefix(held, "B"), 14)
            << cell(with_prefix(was, "B"), 14) << off_by(held, was) << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Predicted training steps beside measured ones", "bench_simulate");
  int steps = 5;
  std::string only;
  app.add_option("--steps", steps, "that are timed, after two of warm-up")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--only", only, "cases with this in their names");
  CLI11_PARSE(app, argc, argv);
  try {
    const bool is_rank = dist::launcher_job().size > 1;
    dist::launch(
        [&](dist::World& world) {
          require<ConfigError>(world.size() == ranks, "expected ", ranks, " ranks, got ", world.size());
          if (world.rank() == 0)
            std::cout << cell("case", 32) << cell("predicted", 14) << cell("measured", 14)
                      << cell("off by", 12) << cell("predicted", 14) << cell("held", 14) << "off by"
                      << std::endl;
          for (const Case& c : cases())
            if (std::string_view(c.name).find(only) != std::string_view::npos) run_case(c, world, steps);
        },
        {.virtual_ranks = is_rank ? 1 : ranks, .threads = 1});
  } catch (const Error& error) {
    std::cerr << "bench_simulate: " << error.what() << "\n";
    return 2;
  }
}
