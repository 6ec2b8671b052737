// After the first steps, a training step allocates no memory from the system: its tensors come from the
// caching allocator, and nothing large is allocated besides them.

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tensor/memory/cpu_allocator.h"
#include "tensor/threads/parallel.h"
#include "tools/gptlite/run.h"
#include "tools/gptlite/task.h"

namespace {

/// Bytes: a sixteenth of an activation of the model below.
constexpr size_t large = size_t{16} << 10;
std::atomic<int64_t> large_allocations{0};

[[maybe_unused]] void* allocate(size_t size, size_t alignment) {
  if (size >= large) ++large_allocations;
  void* const block = alignment > alignof(std::max_align_t)
                          ? std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
                          : std::malloc(size ? size : 1);
  if (!block) throw std::bad_alloc();
  return block;
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers have their own

// The other forms (arrays, without exceptions) call these, by the standard. Not inlined: g++ would warn of a
// free() whose block comes from another function than malloc.
[[gnu::noinline]] void* operator new(size_t size) {
  return allocate(size, 1);
}
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, size_t, std::align_val_t) noexcept {
  std::free(block);
}

#endif

namespace tessera::gptlite {
namespace {

/// The allocations of four steps after three of warm-up.
struct Allocations {
  int64_t from_system, large_blocks;
};

/// Counts in a fit of seven steps.
struct Counting : training::Callback {
  void on_train_batch_end(training::Trainer& trainer, training::Task&, const data::Batch&, int64_t) override {
    const int64_t step = trainer.global_step();
    const Allocations now{cpu_allocator_statistics().system_allocations, large_allocations};
    if (trainer.is_at_step_end() && step == 3) first = now;
    if (trainer.is_at_step_end() && step == 7) last = now;
  }
  Allocations first{}, last{};
};

Allocations allocations_of_steady_steps(const Run& run) {
  const data::Corpus corpus = open_data("builtin", "");
  GptTask task(run);
  TextModule text(corpus, run, std::nullopt);
  const auto counting = std::make_shared<Counting>();
  training::TrainerOptions options = trainer_options(run, nullptr);
  options.max_steps = 7;
  options.log_every = 1;
  options.callbacks = {counting};
  training::Trainer(options).fit(task, text);
  const Allocations &first = counting->first, &last = counting->last;
  return {last.from_system - first.from_system, last.large_blocks - first.large_blocks};
}

Run small_run() {
  Run run;
  run.preset = models::preset("nano-cpu", 128);
  run.preset.model.layers = 2;
  run.preset.model.dropout = 0.1;
  run.preset.batch_size = run.micro_batch_size = 8;
  return run;
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("steady step: large blocks are counted") {
  const int64_t before = large_allocations;
  std::vector<char>* volatile block = new std::vector<char>(large);
  delete block;
  CHECK(large_allocations == before + 1);
}
#else
TEST_CASE("steady step: large blocks are counted") {
  MESSAGE("skipped: a sanitizer's own operator new is in use, so large blocks are not counted");
}
#endif

TEST_CASE("steady step: allocates nothing from the system, and nothing large besides its tensors") {
  // One thread: the overlap of several threads' scratch depends on timing.
  const int threads = num_threads();
  set_num_threads(1);
  std::vector<Run> runs(5, small_run());
  runs[1].micro_batch_size = 4;
  runs[2].dtype = "bf16";
  runs[3].checkpointing = {.interval = 1, .keep = {"self_attention"}};
  runs[4].preset.model.bias = runs[4].preset.model.qkv_bias = true;
  runs[4].preset.model.tie_weights = false;
  for (size_t i = 0; i < runs.size(); ++i) {
    CAPTURE(i);
    const Allocations allocations = allocations_of_steady_steps(runs[i]);
    CHECK(allocations.from_system == 0);
    CHECK(allocations.large_blocks == 0);
  }
  set_num_threads(threads);
}

}  // namespace tessera::gptlite
