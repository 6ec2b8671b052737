#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {

/// A list of arrays laid end to end, each cut from its own start into chunks of fixed size: what a chunk
/// holds depends on no thread count.
struct ChunkedLoop {
  int64_t chunk;  ///< elements
  int64_t grain;  ///< chunks for which a second thread pays

  int64_t chunks_of(int64_t numel) const { return (numel + chunk - 1) / chunk; }

  /// Calls body(array, begin, end, index) for runs of whole chunks of one array, dealt to all threads in one
  /// region; `index` numbers the run's first chunk over all arrays, `numel(array)` says how long an array is.
  template <class Numel, class Body>
  void run(int64_t arrays, const Numel& numel, const Body& body) const {
    int64_t total = 0;
    for (int64_t a = 0; a < arrays; ++a) total += chunks_of(numel(a));
    parallel_for(total, grain, [&](int64_t begin, int64_t end) {
      int64_t first = 0;
      for (int64_t a = 0; a < arrays && first < end; ++a) {
        const int64_t length = numel(a), count = chunks_of(length);
        const int64_t from = std::max(begin - first, int64_t{0}), to = std::min(end - first, count);
        if (from < to) body(a, from * chunk, std::min(to * chunk, length), first + from);
        first += count;
      }
    });
  }
};

}  // namespace tessera::kernels::cpu
