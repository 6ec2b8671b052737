// Trains a model data-parallel and prints, as one JSON object, speed, the share of a step spent waiting for
// other ranks, and the bytes sent: the counterpart of peer_data_parallel.py. Ranks are processes under
// mpirun, else threads; `--strategy single` is one process without dist/, on the same global batch.
//
//     mpirun -n 2 build/release/bin/bench/bench_data_parallel --model nano-cpu --strategy full_shard
//     build/release/bin/bench/bench_data_parallel --model wide --strategy no_shard --virtual-ranks 2
//     build/release/bin/bench/bench_data_parallel --model deep --strategy single --threads 2

#include <json/json.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <numeric>
#include <optional>

#include "dist/fsdp/shard.h"
#include "dist/launch/launch.h"
#include "models/dnn.h"
#include "models/presets.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/error.h"
#include "tensor/profile/chrome_trace.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace tessera;

struct Options {
  std::string model = "nano-cpu", strategy = "full_shard", backward_prefetch = "pre", trace;
  int ranks = 2, threads = 0, virtual_ranks = 1;
  int64_t steps = 30, skip = 5, profiled = 5, bucket_bytes = 0;
  bool forward_prefetch = false;
  uint64_t seed = 1;

  bool is_single() const { return strategy == "single"; }
};

Options parse(CLI::App& app, int argc, char** argv) {
  Options o;
  app.add_option("--model", o.model, "nano-cpu, width-768, wide or deep")
      ->check(CLI::IsMember({"nano-cpu", "width-768", "wide", "deep"}))
      ->capture_default_str();
  app.add_option("--strategy", o.strategy, "a strategy's name, or single")->capture_default_str();
  app.add_option("--ranks", o.ranks, "of single: number of ranks whose shares form its batch")
      ->capture_default_str();
  app.add_option("--virtual-ranks", o.virtual_ranks, "ranks as threads")->capture_default_str();
  app.add_option("--threads", o.threads, "of single: computing threads (default: the cores of this process)");
  app.add_option("--steps", o.steps)->capture_default_str();
  app.add_option("--skip", o.skip, "steps before the clock starts")->capture_default_str();
  app.add_option("--profile-steps", o.profiled, "further steps, not timed, that measure the waiting")
      ->capture_default_str();
  app.add_option("--trace", o.trace, "file: trace of these steps of rank 0's process, for Perfetto");
  app.add_option("--bucket-bytes", o.bucket_bytes, "of no_shard (default: the library's)");
  app.add_flag("--forward-prefetch", o.forward_prefetch);
  app.add_option("--backward-prefetch", o.backward_prefetch, "pre, post or none")
      ->check(CLI::IsMember({"pre", "post", "none"}))
      ->capture_default_str();
  app.add_option("--seed", o.seed)->capture_default_str();
  app.parse(argc, argv);
  require<ConfigError>(o.steps > o.skip && o.skip >= 0, "--steps ", o.steps, " --skip ", o.skip,
                       ": expected at least one step after those skipped");
  return o;
}

/// A model, its units, its loss, and batches made before the clock starts.
struct Task {
  std::unique_ptr<nn::Module> model;
  dist::UnitPolicy units;
  std::function<Variable(int64_t step)> loss;
  int64_t items = 0;  ///< tokens or samples of a batch
  const char* unit = "tokens";
  double lr = 1e-3;
};

constexpr int64_t batches = 4;

Task gpt_task(const Options& o, int64_t shares, int rank) {
  const models::Preset preset = models::preset(o.model, 65);
  const int64_t sequences = shares * (o.model == "nano-cpu" ? 6 : 1), T = preset.model.block_size;
  std::vector<Tensor> ids;
  for (int64_t i = 0; i < 2 * batches; ++i) {
    const Tensor uniform = Tensor::empty({sequences, T}, f32);
    init::uniform(0, 65).fill(uniform, o.seed + static_cast<uint64_t>(100 * rank + i), uniform.shape());
    ids.push_back(Tensor::empty({sequences, T}, i64));
    for (int64_t k = 0; k < uniform.numel(); ++k)
      ids.back().data<int64_t>()[k] = std::min<int64_t>(64, static_cast<int64_t>(uniform.data<float>()[k]));
  }
  auto gpt = std::make_unique<models::Gpt>(preset.model);
  models::Gpt& model = *gpt;
  return {std::move(gpt),
          dist::every<models::Block>(),
          [&model, ids](int64_t step) {
            const auto i = static_cast<size_t>(2 * (step % batches));
            return model.loss(ids[i], ids[i + 1]);
          },
          sequences * T,
          "tokens",
          preset.learning_rate};
}

Task dnn_task(const Options& o, int64_t shares, int rank) {
  const models::DnnOptions options = o.model == "wide" ? models::wide_dnn() : models::deep_dnn();
  const int64_t samples = 64 * shares;
  std::vector<Tensor> values;
  for (int64_t i = 0; i < 2 * batches; ++i) {
    values.push_back(Tensor::empty({samples, options.width}, f32));
    init::normal(1).fill(values.back(), o.seed + static_cast<uint64_t>(100 * rank + i),
                         values.back().shape());
  }
  auto dnn = std::make_unique<models::Dnn>(options);
  models::Dnn& model = *dnn;
  return {std::move(dnn),
          dist::every<nn::Linear>(),
          [&model, values](int64_t step) {
            const auto i = static_cast<size_t>(2 * (step % batches));
            return model.loss(values[i], values[i + 1]);
          },
          samples,
          "samples",
          1e-4};
}

Task make_task(const Options& o, int64_t shares, int rank) {
  return o.model == "wide" || o.model == "deep" ? dnn_task(o, shares, rank) : gpt_task(o, shares, rank);
}

dist::ShardOptions shard_options(const Options& o, dist::World& world, const Task& task) {
  using enum dist::BackwardPrefetch;
  dist::ShardOptions options{.mesh = dist::Mesh(world),
                             .strategy = dist::parse_strategy(o.strategy),
                             .units = task.units,
                             .backward_prefetch = o.backward_prefetch == "pre"    ? pre
                                                  : o.backward_prefetch == "post" ? post
                                                                                  : none,
                             .forward_prefetch = o.forward_prefetch};
  if (o.bucket_bytes > 0) options.bucket_bytes = o.bucket_bytes;
  return options;
}

/// The training steps of one rank.
class Steps {
 public:
  explicit Steps(Task& task)
      : task_(task),
        adam_(task.model->parameters(), {.lr = task.lr, .betas = {0.9, 0.95}, .weight_decay = 0.1}) {}

  /// Takes one step; returns its seconds.
  double next() {
    const SpanScope span(SpanKind::step, "step", step_);
    const auto began = std::chrono::steady_clock::now();
    Variable loss;
    {
      const SpanScope phase(SpanKind::phase, "forward");
      loss = task_.loss(step_++);
    }
    loss.backward();
    {
      const SpanScope phase(SpanKind::phase, "optimizer");
      adam_.step();
      adam_.zero_grad();
    }
    loss_ = loss.item();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }
  double loss() const { return loss_; }

 private:
  Task& task_;
  optim::AdamW adam_;
  int64_t step_ = 0;
  double loss_ = 0;
};

/// Nanoseconds of a rank's steps, and of the waits for other ranks inside them.
struct Waiting {
  int64_t steps = 0, waits = 0;
};

Waiting waiting_of(const Profiler& profiler, int rank) {
  Waiting found;
  for (const Profiler::Row& row : profiler.rows()) {
    if (row.rank != rank) continue;
    std::vector<const Span*> steps;
    for (const Span& span : row.spans)
      if (span.kind == SpanKind::step) steps.push_back(&span);
    for (const Span* step : steps) found.steps += step->end - step->begin;
    for (const Span& span : row.spans)
      if (span.kind == SpanKind::wait && !span.nested &&
          std::any_of(steps.begin(), steps.end(),
                      [&](const Span* step) { return span.begin >= step->begin && span.end <= step->end; }))
        found.waits += span.end - span.begin;
  }
  return found;
}

/// Measures the waiting and the bytes sent over `o.profiled` more steps.
void profile(const Options& o, Steps& steps, dist::World& world, Json::Value& result) {
  dist::Communicator& all = world.communicator();
  // A process has one profiler for the spans of all its threads; its first rank opens it.
  const bool opens = world.rank() == 0 || o.virtual_ranks == 1;
  Profiler profiler;
  std::optional<ProfilerScope> recording;
  if (opens) recording.emplace(profiler);
  all.barrier().wait();
  all.ledger().reset();
  for (int64_t i = 0; i < o.profiled; ++i) steps.next();
  const auto per_step = [&](dist::Traffic traffic) {
    return Json::Int64(all.ledger().total(traffic).bytes / o.profiled);
  };
  result["sent_per_step"]["parameters"] = per_step(dist::Traffic::parameters);
  result["sent_per_step"]["gradients"] = per_step(dist::Traffic::gradients);
  result["sent_per_step"]["calls"] = Json::Int64(all.ledger().total().calls / o.profiled);
  all.barrier().wait();
  recording.reset();
  if (world.rank() != 0) return;
  const Waiting waiting = waiting_of(profiler, 0);
  result["waiting_share"] = static_cast<double>(waiting.waits) / static_cast<double>(waiting.steps);
  if (!o.trace.empty()) write_chrome_trace(profiler, o.trace);
}

void measure(const Options& o, Steps& steps, int64_t items, Json::Value& result) {
  std::vector<double> seconds;
  for (int64_t i = 0; i < o.steps; ++i) seconds.push_back(steps.next());
  std::vector<double> timed(seconds.begin() + o.skip, seconds.end());
  const double sum = std::accumulate(timed.begin(), timed.end(), 0.0);
  std::nth_element(timed.begin(), timed.begin() + std::ssize(timed) / 2, timed.end());
  result["global_batch"] = Json::Int64(items);
  result["timed_steps"] = Json::Int64(std::ssize(timed));
  result["rate"] = static_cast<double>(items) * static_cast<double>(timed.size()) / sum;
  result["median_step_ms"] = 1e3 * timed[timed.size() / 2];
  result["loss"] = steps.loss();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  result["peak_rss_bytes"] = Json::Int64(usage.ru_maxrss * 1024);
}

Json::Value describe(const Options& o, const Task& task, int ranks) {
  Json::Value v;
  v["program"] = "bench_data_parallel";
  v["model"] = o.model;
  v["strategy"] = o.strategy;
  v["ranks"] = ranks;
  v["threads"] = num_threads();
  v["unit"] = task.unit;
  v["parameters"] = Json::Int64(task.model->parameters().numel());  // before sharding
  return v;
}

void print(const Json::Value& result) {
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "";
  std::cout << Json::writeString(builder, result) << std::endl;
}

void run_single(const Options& o) {
  if (o.threads > 0) set_num_threads(o.threads);
  Task task = make_task(o, o.ranks, 0);
  Json::Value result = describe(o, task, 1);
  nn::materialize(*task.model, cpu(), o.seed);
  Steps steps(task);
  measure(o, steps, task.items, result);
  print(result);
}

void run_rank(const Options& o, dist::World& world) {
  Task task = make_task(o, 1, world.rank());
  Json::Value result = describe(o, task, world.size());
  dist::shard(*task.model, shard_options(o, world, task));
  nn::materialize(*task.model, cpu(), o.seed);
  Steps steps(task);
  measure(o, steps, task.items * world.size(), result);
  if (o.profiled > 0) profile(o, steps, world, result);
  if (world.rank() == 0) print(result);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Speed of data-parallel training, as one JSON object", "bench_data_parallel");
  try {
    const Options options = parse(app, argc, argv);
    if (options.is_single())
      run_single(options);
    else
      dist::launch([&](dist::World& world) { run_rank(options, world); },
                   {.virtual_ranks = options.virtual_ranks});
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const Error& error) {
    std::cerr << "bench_data_parallel: " << error.what() << "\n";
    return 2;
  }
}
