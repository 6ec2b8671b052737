// A training step that follows others asks the system for nothing: its tensors come from the caching
// allocator, and nothing large is allocated beside them.

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "data/loader.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "tensor/memory/cpu_allocator.h"
#include "tensor/threads/parallel.h"
#include "tools/gptlite/trainer.h"

namespace {

/// A sixteenth of an activation below.
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

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they have their own

// The others (arrays, without exceptions) are defined by the standard to call these. Not inlined: g++ would
// take a deletion's free() for one of a block that comes from another function than malloc.
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

/// What `steps` steps after some to warm up asked for.
struct Asked {
  int64_t of_the_system, large_blocks;
};

Asked asked_by_steady_steps(const Run& run) {
  const data::Corpus corpus = open_data("builtin", "");
  models::Gpt gpt(run.recipe.model);
  nn::materialize(gpt, cpu(), run.seed);
  if (const DType dtype = compute_dtype(run.dtype); dtype != f32) nn::use_mixed_precision(gpt, dtype);
  gpt.blocks.set_checkpointing(run.checkpointing);
  const auto adam = make_optimizer(gpt, run.recipe);
  data::Loader loader(make_batches(corpus, run), {.workers = 0, .seed = run.seed});
  const auto step = [&] { train_step(gpt, *adam, *loader.next(), run); };
  for (int i = 0; i < 3; ++i) step();
  const int64_t system = cpu_allocator_statistics().system_allocations, blocks = large_allocations;
  for (int i = 0; i < 4; ++i) step();
  return {cpu_allocator_statistics().system_allocations - system, large_allocations - blocks};
}

Run small_run() {
  Run run;
  run.recipe = models::preset("nano-cpu", 128);
  run.recipe.model.layers = 2;
  run.recipe.model.dropout = 0.1;
  run.recipe.batch_size = run.micro_batch_size = 8;
  return run;
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("steady step: large blocks are seen by the count") {
  const int64_t before = large_allocations;
  std::vector<char>* volatile block = new std::vector<char>(large);
  delete block;
  CHECK(large_allocations == before + 1);
}
#else
TEST_CASE("steady step: large blocks are seen by the count") {
  MESSAGE("skipped: a sanitizer's own operator new is in use, so large blocks are not counted");
}
#endif

TEST_CASE("steady step: asks the system for nothing, and allocates nothing large beside its tensors") {
  // One thread: when the scratch of several overlaps is a matter of time.
  const int threads = num_threads();
  set_num_threads(1);
  std::vector<Run> runs(5, small_run());
  runs[1].micro_batch_size = 4;
  runs[2].dtype = "bf16";
  runs[3].checkpointing = {.interval = 1, .keep = {"self_attention"}};
  runs[4].recipe.model.bias = runs[4].recipe.model.qkv_bias = true;
  runs[4].recipe.model.tie_weights = false;
  for (size_t i = 0; i < runs.size(); ++i) {
    CAPTURE(i);
    const Asked asked = asked_by_steady_steps(runs[i]);
    CHECK(asked.of_the_system == 0);
    CHECK(asked.large_blocks == 0);
  }
  set_num_threads(threads);
}

}  // namespace tessera::gptlite
