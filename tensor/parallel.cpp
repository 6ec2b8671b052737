#include "tensor/parallel.h"

#include <sched.h>

#include <algorithm>
#include <exception>

#include "tensor/error.h"

#if defined(_OPENMP)
#include <omp.h>
#endif
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace tessera {
namespace {

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return 1;
}

thread_local int thread_count = 0;                           // 0: not set in this thread yet
[[maybe_unused]] thread_local bool inside_parallel = false;  // unused without OpenMP
thread_local bool denormals_flushed = false;

void flush_denormals() {
#if defined(__SSE2__)
  _mm_setcsr(_mm_getcsr() | 0x8040u);  // FTZ (bit 15) and DAZ (bit 6)
#elif defined(__aarch64__)
  uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  asm volatile("msr fpcr, %0" ::"r"(fpcr | (1ull << 24)));
#endif
}

}  // namespace

void enter_compute_thread() {
  if (denormals_flushed) return;
  flush_denormals();
  denormals_flushed = true;
}

int num_threads() {
  if (thread_count == 0) {
    static const int cores = available_cores();
    thread_count = cores;
  }
  return thread_count;
}

void set_num_threads(int threads) {
  require<ValueError>(threads >= 1, "set_num_threads: expected at least 1 thread, got ", threads);
  thread_count = threads;
}

void parallel_for(int64_t n, [[maybe_unused]] int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (n <= 0) return;
  enter_compute_thread();
#if defined(_OPENMP)
  const int64_t parts =
      std::min<int64_t>(num_threads(), std::max<int64_t>(1, n / std::max<int64_t>(grain, 1)));
  if (parts > 1 && !inside_parallel) {
    std::exception_ptr failure;
#pragma omp parallel num_threads(static_cast <int>(parts))
    {
      enter_compute_thread();
      inside_parallel = true;
      const int64_t count = omp_get_num_threads(), part = omp_get_thread_num();
      try {
        const int64_t begin = n * part / count, end = n * (part + 1) / count;
        if (begin < end) body(begin, end);
      } catch (...) {
#pragma omp critical(tessera_parallel_failure)
        if (!failure) failure = std::current_exception();
      }
      inside_parallel = false;
    }
    if (failure) std::rethrow_exception(failure);
    return;
  }
#endif
  body(0, n);
}

}  // namespace tessera
