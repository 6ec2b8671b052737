#include "tools/gptlite/plan/memory_plan.h"

#include <sys/resource.h>

#include <numeric>

#include "tensor/number_text.h"
#include "tensor/random/random_context.h"
#include "tools/gptlite/plan/parallel_plan.h"
#include "tools/gptlite/training/train_step.h"

namespace tessera::gptlite {
namespace {

/// A batch on meta with the shapes of the loader's.
data::Batch meta_batch(const Run& run) {
  const CategoryScope category(MemoryCategory::other);
  const int64_t samples = samples_per_rank(run);
  const Shape shape{samples, run.preset.model.block_size};
  data::Batch batch;
  batch.x = Tensor::empty(shape, i64, meta());
  batch.y = Tensor::empty(shape, i64, meta());
  batch.samples.resize(static_cast<size_t>(samples));
  std::iota(batch.samples.begin(), batch.samples.end(), 0);
  batch.items.resize(batch.samples.size());
  return batch;
}

std::string cell(const std::string& text, size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 1, ' ');
}

std::string row(const std::string& name, int64_t planned, const int64_t* measured) {
  std::string line = "  " + cell(name, 22) + with_prefix(static_cast<double>(planned), "B");
  if (measured) line = cell(line, 40) + with_prefix(static_cast<double>(*measured), "B");
  return line + "\n";
}

/// "optimizer state" for "optimizer_state".
std::string display_name(MemoryCategory category) {
  std::string name = to_string(category);
  for (char& c : name)
    if (c == '_') c = ' ';
  return name;
}

}  // namespace

PeakMemory peak_of(const MemoryAccount& account) {
  return {account.total().peak, account.at_peak()};
}

int64_t peak_resident_bytes() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

MemoryPlan plan_memory(const Run& run) {
  const RandomContextScope context{RandomContext()};
  const auto account = make_intrusive<MemoryAccount>();
  const MetaAccountScope scope(account);
  models::Gpt gpt(run.preset.model);
  const std::unique_ptr<training::EngineCore> engine = make_engine(gpt, run, meta());
  MemoryPlan plan;
  for (int step = 0; step < 2; ++step) train_step(*engine, gpt, meta_batch(run));
  plan.peak = peak_of(*account);
  if (run.parallel.is_sharded) plan.peak = with_estimate(plan.peak, estimate_run(run));

  const data::Batch batch = meta_batch(run);
  const int64_t before = account->count(MemoryCategory::activation).current;
  const Variable loss = forward_loss(gpt, batch.micro_batch(0, run.micro_batch_size));
  plan.kept_by_forward = account->count(MemoryCategory::activation).current - before;
  return plan;
}

std::string describe(const PeakMemory& planned, const PeakMemory* measured) {
  std::string text;
  for (int c = 0; c < memory_categories; ++c) {
    if (planned.by_category[c] == 0 && !(measured && measured->by_category[c] != 0)) continue;
    text += row(display_name(static_cast<MemoryCategory>(c)), planned.by_category[c],
                measured ? &measured->by_category[c] : nullptr);
  }
  return text + row("total", planned.total, measured ? &measured->total : nullptr);
}

}  // namespace tessera::gptlite
