#pragma once  // internal

#include <algorithm>
#include <cstdint>

#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {

/// A list of arrays, each cut from its own start into chunks of fixed size, so that the chunks do not depend
/// on the number of threads.
struct ChunkedLoop {
  int64_t chunk;  ///< elements
  int64_t grain;  ///< the fewest chunks for which a second thread is worth its start

  int64_t chunks_of(int64_t numel) const { return (numel + chunk - 1) / chunk; }

  /// Calls body(array, begin, end, index) for ranges of whole chunks of one array, distributed over all
  /// threads in one parallel region. `index` is the number of the range's first chunk, counted over all
  /// arrays; `numel(array)` gives an array's length.
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
