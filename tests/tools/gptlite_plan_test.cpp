// The plan of a run beside the peak of its steps.
#include <doctest/doctest.h>

#include "tests/dist/fsdp/on_threads.h"
#include "tools/gptlite/plan.h"
#include "tools/gptlite/run.h"
#include "tools/gptlite/task.h"

using namespace tessera;
using gptlite::Run;
using training::PeakMemory;

namespace {

data::Corpus squares() {
  std::vector<uint16_t> ids(4000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint16_t>(i * i % 65);
  data::Corpus corpus;
  corpus.train = data::Tokens(ids, "squares");
  return corpus;
}

Run small_run() {
  Run run;
  run.preset.model = {.vocabulary = 65, .block_size = 64, .layers = 3, .heads = 4, .width = 64};
  run.preset.batch_size = 8;
  run.micro_batch_size = 8;
  run.parallel.shard_group_size = 1;
  return run;
}

Run sharded(Run run, int ranks, dist::Strategy strategy) {
  run.parallel.world_size = run.parallel.shard_group_size = ranks;
  run.parallel.strategy = strategy;
  run.parallel.is_sharded = true;
  run.micro_batch_size = std::min(run.micro_batch_size, gptlite::samples_per_rank(run));
  return run;
}

/// The peak of three steps that are computed.
PeakMemory measured(const Run& run, dist::World* world = nullptr) {
  const data::Corpus corpus = squares();
  const auto account = make_intrusive<MemoryAccount>();
  {
    const AccountScope scope(account);
    gptlite::GptTask task(run);
    gptlite::TextModule text(corpus, run, std::nullopt);
    training::TrainerOptions options = gptlite::trainer_options(run, world);
    options.max_steps = 3;
    training::Trainer(std::move(options)).fit(task, text);
  }
  return training::peak_of(*account);
}

/// Runs that differ in what takes memory.
std::vector<Run> variants() {
  std::vector<Run> runs(8, small_run());
  runs[1].micro_batch_size = 2;
  runs[2].dtype = "bf16";
  runs[3].dtype = "bf16";
  runs[3].micro_batch_size = 4;
  runs[3].preset.model.dropout = 0.1;
  runs[4].checkpointing = {.interval = 1, .keep = {"self_attention"}};
  runs[5].checkpointing = {.interval = 2};
  runs[5].preset.model.dropout = 0.1;
  runs[5].micro_batch_size = 1;
  runs[6].preset.gradient_clip = 0;
  runs[7].preset.model.tie_weights = false;
  runs[7].preset.model.bias = true;
  return runs;
}

}  // namespace

TEST_CASE("gptlite's plan: the peak of a fit to 2 %") {
  const std::vector<Run> runs = variants();
  for (size_t i = 0; i < runs.size(); ++i) {
    CAPTURE(i);
    const training::StepPlan plan = gptlite::plan_memory(runs[i]);
    CHECK(plan.parameters == models::parameter_count(runs[i].preset.model));
    const PeakMemory real = measured(runs[i]);
    CAPTURE(training::describe(plan.peak, &real));
    CHECK(real.total > 0);
    CHECK(static_cast<double>(std::abs(plan.peak.total - real.total)) <=
          0.02 * static_cast<double>(real.total));
    for (const MemoryCategory category : {MemoryCategory::parameter, MemoryCategory::optimizer_state})
      CHECK(plan.peak.by_category[static_cast<int>(category)] ==
            real.by_category[static_cast<int>(category)]);
  }
}

TEST_CASE("gptlite's plan of a run on ranks: close to the peak of a fit") {
  for (const dist::Strategy strategy : dist::flat_strategies) {
    for (const int64_t micro_batch : {1, 12}) {
      for (const char* dtype : {"fp32", "bf16"}) {
        Run alone = small_run();
        alone.preset.model.layers = micro_batch == 1 ? 2 : 3;
        alone.preset.model.dropout = 0.1;
        alone.preset.batch_size = micro_batch == 1 ? 12 : 8;
        alone.micro_batch_size = micro_batch;
        alone.dtype = dtype;
        const Run run = sharded(alone, 4, strategy);
        CAPTURE(to_string(strategy));
        CAPTURE(micro_batch);
        CAPTURE(std::string(dtype));
        test::require_no_problems(4, [&](dist::World& world) -> std::vector<std::string> {
          const training::StepPlan plan = gptlite::plan_memory(run, &world);
          const PeakMemory real = measured(run, &world);
          const auto planned = static_cast<double>(plan.peak.total);
          // The plan adds all temporary bytes to the peak of activations, though they need not coincide.
          if (planned < 0.98 * static_cast<double>(real.total) ||
              planned > 1.2 * static_cast<double>(real.total))
            return {training::describe(plan.peak, &real)};
          return {};
        });
      }
    }
  }
}
