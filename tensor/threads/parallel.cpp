#include "tensor/threads/parallel.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/profile/span.h"
#include "tensor/threads/cores.h"
#include "tensor/threads/thread_team.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace tessera {
namespace {

thread_local int thread_count = 0;  // 0: not set in this thread yet
thread_local bool inside_parallel = false;

#if defined(__SSE2__)
constexpr uint64_t flushing = 0x8040u;  // FTZ (bit 15) and DAZ (bit 6)
uint64_t control_register() {
  return _mm_getcsr();
}
void set_control_register(uint64_t bits) {
  _mm_setcsr(static_cast<unsigned>(bits));
}
#elif defined(__aarch64__)
constexpr uint64_t flushing = 1ull << 24;
uint64_t control_register() {
  uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr)::"memory");
  return fpcr;
}
void set_control_register(uint64_t bits) {
  asm volatile("msr fpcr, %0" ::"r"(bits) : "memory");
}
#else
constexpr uint64_t flushing = 0;
uint64_t control_register() {
  return 0;
}
void set_control_register(uint64_t) {}
#endif

int default_threads() {
  const char* const setting = std::getenv("TESSERA_NUM_THREADS");
  return setting ? parse_thread_count(setting) : available_cores();
}

/// Marks the calling thread as one that computes a range, while the object lives.
class InsideParallel {
 public:
  InsideParallel() { inside_parallel = true; }
  ~InsideParallel() { inside_parallel = false; }
  InsideParallel(const InsideParallel&) = delete;
  InsideParallel& operator=(const InsideParallel&) = delete;
};

/// A thread's team. Its destructor records that the team ended.
struct TeamHolder {
  std::unique_ptr<ThreadTeam> team;
  ~TeamHolder();
};
thread_local bool team_ended = false;
thread_local TeamHolder team_holder;

TeamHolder::~TeamHolder() {
  team_ended = true;
}

/// This thread's team, of `threads` threads; null after its end: destructors of static objects may compute.
ThreadTeam* team_of(int threads) {
  if (team_ended) return nullptr;
  std::unique_ptr<ThreadTeam>& team = team_holder.team;
  if (!team || team->threads() != threads || team->is_from_before_fork()) {
    team.reset();
    team = std::make_unique<ThreadTeam>(threads);
  }
  return team.get();
}

/// `ThreadTeam::run` under a profiler: records a span per range, and one for the time in which the caller
/// waits for the slowest.
void run_profiled(ThreadTeam& team, int ranges, FunctionRef<void(int)> range) {
  const SpanOrigin origin = span_origin();
  int64_t finished = 0;
  team.run(ranges, [&](int i) {
    {
      const RangeScope span(origin);
      range(i);
    }
    if (i == 0) finished = profile_clock();
  });
  record_span({.name = "threads",
               .module = nullptr,
               .phase = origin.phase,
               .stream = nullptr,
               .begin = finished,
               .end = profile_clock(),
               .bytes = 0,
               .flops = 0,
               .number = -1,
               .kind = SpanKind::wait,
               .nested = false});
}

}  // namespace

FlushDenormals::FlushDenormals() {
  const uint64_t before = control_register();
  added_ = flushing & ~before;
  if (added_ != 0) set_control_register(before | added_);
}

FlushDenormals::~FlushDenormals() {
  // The register's other bits, such as the exceptions that were raised meanwhile, stay.
  if (added_ != 0) set_control_register(control_register() & ~added_);
}

int num_threads() {
  if (thread_count == 0) {
    static const int threads = default_threads();
    thread_count = threads;
  }
  return thread_count;
}

void set_num_threads(int threads) {
  require<ValueError>(threads >= 1, "set_num_threads: expected at least 1 thread, got ", threads);
  thread_count = threads;
}

void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (n <= 0) return;
  const FlushDenormals flushed;
  const int threads = num_threads();
  const int64_t ranges = std::min<int64_t>(threads, n / std::max<int64_t>(grain, 1));
  if (ranges <= 1 || inside_parallel) return body(0, n);

  const MemoryScopes memory = current_memory_scopes();
  const auto run_range = [&](int range) { body(n * range / ranges, n * (range + 1) / ranges); };
  ThreadTeam* const team = team_of(threads);
  const InsideParallel scope;
  if (!team) {
    for (int range = 0; range < ranges; ++range) run_range(range);
    return;
  }
  const auto in_thread = [&](int range) {
    const FlushDenormals flushed_here;
    if (range > 0) {
      adopt_memory_scopes(memory);
      thread_count = threads;
      inside_parallel = true;
    }
    run_range(range);
  };
  if (profiling()) [[unlikely]]
    return run_profiled(*team, static_cast<int>(ranges), in_thread);
  team->run(static_cast<int>(ranges), in_thread);
}

}  // namespace tessera
