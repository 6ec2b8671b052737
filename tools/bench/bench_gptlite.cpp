// Trains some steps of a preset, as `gptlite train` does, and prints speed, memory and loss as one JSON
// object: the counterpart of peer_pytorch.py. The learning rates are those of the preset's whole run, for any
// number of steps taken here.
//
//     build/release/bin/bench/bench_gptlite --preset nano-cpu --steps 200
//     build/release/bin/bench/bench_gptlite --preset gpt-lite --block-size 1024 --steps 1 --skip 0
//
// With --turns it steps only while a runner lets it (turns.h).

#include <json/json.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <numeric>

#include "dist/train/profile/wall_clock.h"
#include "tensor/error.h"
#include "tensor/memory/cpu_allocator.h"
#include "tensor/profile/op_table.h"
#include "tensor/profile/span.h"
#include "tensor/threads/parallel.h"
#include "tools/bench/turns.h"
#include "tools/gptlite/plan.h"
#include "tools/gptlite/resolve.h"
#include "tools/gptlite/run.h"
#include "tools/gptlite/task.h"

namespace {

using namespace tessera;
using namespace tessera::gptlite;

struct Options {
  TrainCommand train;
  int64_t steps = 20, skip = 5, profiled = 0;
  bool plan_only = false, turns = false;
};

/// The flags of `gptlite train` that change a step's cost, and those of the benchmark.
Options parse(CLI::App& app, int argc, char** argv) {
  Options o;
  std::vector<training::FieldValue> fields = train_flags();
  std::erase_if(fields, [](const training::FieldValue& field) {
    constexpr std::string_view used[] = {"preset",  "threads",    "batch_size",
                                         "dropout", "block_size", "micro_batch_size",
                                         "seed",    "dataset",    "activation_checkpoint_interval",
                                         "data",    "dtype",      "activation_checkpoint_keep"};
    return std::find(std::begin(used), std::end(used), field.info.name) == std::end(used);
  });
  const training::FieldFlags flags(app, fields);
  app.add_option("--steps", o.steps, "steps to take; the schedule keeps the preset's length")
      ->capture_default_str();
  app.add_option("--skip", o.skip, "steps before the clock starts")->capture_default_str();
  app.add_option("--profile-steps", o.profiled,
                 "further steps, not timed, that measure the time in each kernel")
      ->capture_default_str();
  app.add_flag("--turns", o.turns,
               "step in turns, as the lines of the standard input say; --steps is the most");
  app.add_flag("--plan-only", o.plan_only, "the memory plan alone: nothing is trained");
  app.parse(argc, argv);
  o.train.flags = flags.given();
  require<ConfigError>(o.plan_only || (o.steps > o.skip && o.skip >= 0), "--steps ", o.steps, " --skip ",
                       o.skip, ": expected at least one step after those skipped");
  return o;
}

Json::Value describe_memory(const training::PeakMemory& memory) {
  Json::Value v;
  for (int c = 0; c < memory_categories; ++c)
    v[to_string(static_cast<MemoryCategory>(c))] = Json::Int64(memory.by_category[c]);
  v["total"] = Json::Int64(memory.total);
  return v;
}

Json::Value describe_run(const Run& run) {
  Json::Value v;
  v["program"] = "bench_gptlite";
  v["preset"] = run.preset.name;
  v["dtype"] = run.dtype;
  v["threads"] = num_threads();
  v["seed"] = Json::UInt64(run.seed);
  v["batch_size"] = Json::Int64(run.preset.batch_size);
  v["block_size"] = Json::Int64(run.preset.model.block_size);
  v["parameters"] = Json::Int64(models::parameter_count(run.preset.model));
  const training::StepPlan plan = plan_memory(run);
  v["memory_planned"] = describe_memory(plan.peak);
  v["kept_by_forward"] = Json::Int64(plan.kept_by_forward);
  return v;
}

Json::Value describe_profile(const OpTable& table) {
  Json::Value v;
  v["steps"] = Json::Int64(table.steps);
  v["in_kernels"] = table.share_in_kernels();
  for (const OpTotal& op : table.ops) {
    Json::Value row;
    row["kernel"] = op.name;
    row["phase"] = op.phase;
    row["calls"] = Json::Int64(op.calls);
    row["ms"] = static_cast<double>(op.nanoseconds) / 1e6;
    row["share"] =
        static_cast<double>(op.nanoseconds) / static_cast<double>(std::max<int64_t>(table.nanoseconds, 1));
    v["kernels"].append(row);
  }
  return v;
}

/// Times the steps of a fit, and records the operations of those after `timed`.
class Timing : public training::Callback {
 public:
  /// `tokens`: of a step; 0 without turns.
  Timing(int64_t timed, int64_t tokens) : timed_(timed), tokens_(tokens) {}
  void on_before_train_batch(training::Trainer& trainer, training::Task&) override {
    if (step_) return;  // a later micro-batch of the step
    if (tokens_ > 0 && turn_left_ <= 0) begin_turn(trainer);
    const int64_t step = trainer.global_step();
    if (step == timed_ - 1) allocations_ = cpu_allocator_statistics().system_allocations;
    if (step == timed_) recording_.emplace(profiler_);
    step_.emplace(SpanKind::step, "step", step + 1);
    began_ = training::profile_seconds();
  }
  void on_train_batch_end(training::Trainer& trainer, training::Task&, const data::Batch&, int64_t) override {
    if (!trainer.is_at_step_end()) return;
    step_.reset();
    const int64_t step = trainer.global_step();
    if (step > timed_) return;
    seconds_.push_back(training::profile_seconds() - began_);
    loss_ = trainer.logged().at("loss");
    if (tokens_ > 0 && (turn_left_ -= seconds_.back()) <= 0) end_turn();
    if (step < timed_ && !ended_) return;
    allocations_ = cpu_allocator_statistics().system_allocations - allocations_;
    peak_ = training::peak_of(*current_account());
    resident_ = training::peak_resident_bytes();
  }
  void on_train_end(training::Trainer&, training::Task&) override { recording_.reset(); }

  const std::vector<double>& seconds() const { return seconds_; }
  double loss() const { return loss_; }
  /// Of the last timed step, and up to its end.
  /// @{
  int64_t allocations() const { return allocations_; }
  const training::PeakMemory& peak() const { return peak_; }
  int64_t resident_bytes() const { return resident_; }
  /// @}
  const Profiler& profiler() const { return profiler_; }

 private:
  void begin_turn(training::Trainer& trainer) {
    const std::optional<double> seconds = bench::next_turn();
    ended_ = !seconds;
    if (ended_) trainer.stop();  // after this step, which belongs to no turn
    turn_left_ = seconds.value_or(1e9);
    turn_began_ = seconds_.size();
  }
  void end_turn() {
    const auto steps = static_cast<int64_t>(seconds_.size() - turn_began_);
    const double sum =
        std::accumulate(seconds_.begin() + static_cast<int64_t>(turn_began_), seconds_.end(), 0.0);
    Json::Value turn;
    turn["steps"] = Json::Int64(steps);
    turn["seconds"] = sum;
    turn["tokens_per_second"] = static_cast<double>(steps * tokens_) / sum;
    turn["loss"] = loss_;
    bench::print_line(turn);
    bench::bind_main_thread();
  }

  int64_t timed_, tokens_;
  double turn_left_ = 0;
  size_t turn_began_ = 0;
  bool ended_ = false;
  std::vector<double> seconds_;
  double began_ = 0, loss_ = 0;
  int64_t allocations_ = 0, resident_ = 0;
  training::PeakMemory peak_;
  Profiler profiler_;
  std::optional<ProfilerScope> recording_;
  std::optional<SpanScope> step_;
};

void measure(const Options& options, const Run& run, const data::Corpus& corpus, Json::Value& result) {
  const AccountScope own(make_intrusive<MemoryAccount>());
  const int64_t step_tokens = run.preset.batch_size * run.preset.model.block_size;
  const auto timing = std::make_shared<Timing>(options.steps, options.turns ? step_tokens : 0);
  GptTask task(run);
  TextModule text(corpus, run, std::nullopt);
  training::TrainerOptions trainer_options = gptlite::trainer_options(run, nullptr);
  trainer_options.max_steps = options.steps + options.profiled;
  trainer_options.log_every = 1;
  trainer_options.callbacks = {timing};
  training::Trainer(std::move(trainer_options)).fit(task, text);
  result["system_allocations_in_last_step"] = Json::Int64(timing->allocations());
  result["loss"] = timing->loss();
  result["peak_rss_bytes"] = Json::Int64(timing->resident_bytes());
  result["memory_measured"] = describe_memory(timing->peak());

  const std::vector<double>& seconds = timing->seconds();
  std::vector<double> timed(seconds.begin() + std::min<int64_t>(options.skip, std::ssize(seconds) - 1),
                            seconds.end());
  const double sum = std::accumulate(timed.begin(), timed.end(), 0.0);
  const auto tokens = static_cast<double>(step_tokens);
  const double rate = tokens * static_cast<double>(timed.size()) / sum;
  std::nth_element(timed.begin(), timed.begin() + std::ssize(timed) / 2, timed.end());
  result["steps"] = Json::Int64(options.steps);
  result["timed_steps"] = Json::Int64(std::ssize(timed));
  result["tokens_per_second"] = rate;
  result["median_step_ms"] = 1e3 * timed[timed.size() / 2];
  result["gflops"] = rate * static_cast<double>(models::flops_per_token(run.preset.model)) / 1e9;
  result["training_seconds"] = std::accumulate(seconds.begin(), seconds.end(), 0.0);

  if (options.profiled == 0) return;
  const OpTable table = top_ops(timing->profiler());
  std::cerr << to_string(table);
  result["profile"] = describe_profile(table);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Speed and memory of training a preset, as one JSON object", "bench_gptlite");
  try {
    const Options options = parse(app, argc, argv);
    const TrainConfiguration before_data = resolve_run(options.train, 65);
    apply_device(before_data->device);
    data::Corpus corpus;
    if (!options.plan_only) corpus = open_data(before_data->run.dataset, before_data->run.data);
    const Run run =
        options.plan_only ? before_data->run : resolve_run(options.train, corpus.vocabulary_size)->run;
    Json::Value result = describe_run(run);
    if (!options.plan_only) measure(options, run, corpus, result);
    bench::print_line(result);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const Error& error) {
    std::cerr << "bench_gptlite: " << error.what() << "\n";
    return 2;
  }
}
