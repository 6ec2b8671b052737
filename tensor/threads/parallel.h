#pragma once

#include <cstdint>

#include "tensor/function_ref.h"

namespace tessera {

/// The number of threads that `parallel_for` uses when called from this thread (a rank's own setting).
/// Default: the environment variable TESSERA_NUM_THREADS, or else `available_cores()`. Throws ConfigError
/// where the variable is not an integer from 1 to 4096.
int num_threads();
/// Sets `num_threads` for this thread. More threads than processors are allowed. Throws ValueError below 1.
void set_num_threads(int threads);

/// The one entry to threads. Calls `body(begin, end)` over a static split of [0, n) into at most
/// `num_threads()` contiguous ranges of at least `grain` elements; in the calling thread when one range is
/// enough or when already inside a `parallel_for`. The split depends on n, grain and `num_threads()` alone,
/// and range i always goes to the same thread. Every calling thread has a team of its
/// own (tensor/threads/thread_team.h), made at the first loop that needs one. The team's threads allocate in
/// the caller's memory account and category. The exception of the first range that failed is rethrown here.
/// Ranges run with denormals flushed to zero (`FlushDenormals`).
void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> body);

/// While the object lives, the calling thread flushes denormals to zero and reads them as zero; afterwards it
/// does so only if it did before. Every kernel runs under one, so that its result depends neither on the
/// thread nor on the thread's setting, and the caller's own arithmetic keeps its denormals.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  uint64_t added_;  ///< bits of the control register that were not set before
};

}  // namespace tessera
