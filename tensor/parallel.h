#pragma once

#include <cstdint>

#include "tensor/function_ref.h"

namespace tessera {

/// Threads that `parallel_for` uses when called from this thread (a rank's own setting). Default: the cores
/// this process may run on.
int num_threads();
/// Sets `num_threads` for this thread and for those that inherit its setting. Throws ValueError below 1.
void set_num_threads(int threads);

/// The one entry to OpenMP. Calls `body(begin, end)` over a static split of [0, n) into at most
/// `num_threads()` contiguous parts of at least `grain` elements; in the calling thread when one part is
/// enough or when already inside a `parallel_for`. An exception from a part is rethrown here. Every computing
/// thread flushes denormals to zero.
void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> body);

/// Sets flush-to-zero and denormals-are-zero in the calling thread, once. Kernels are entered through it, so
/// that a result never depends on which thread computed it.
void enter_compute_thread();

}  // namespace tessera
