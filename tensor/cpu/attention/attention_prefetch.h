#pragma once  // internal

#include <algorithm>

#include "tensor/cpu/attention/attention_extents.h"

namespace tessera::kernels::cpu {

/// Rows that the caches are asked for some time before they are read or written, a few at a time: the rows of
/// a head lie so far apart that the processor does not foresee them.
template <class T, bool write = false>
class RowPrefetch {
 public:
  RowPrefetch() = default;
  RowPrefetch(const HeadRows<const T>& rows, int64_t first, int64_t end, int64_t width)
      : rows_(rows), next_(first), end_(end), bytes_(width * static_cast<int64_t>(sizeof(T))) {}

  /// The next `count` rows, or those that are left.
  void step(int64_t count) {
    for (const int64_t last = std::min(next_ + count, end_); next_ < last; ++next_) {
      const auto* const row = reinterpret_cast<const char*>(rows_.row(next_));
      for (int64_t i = 0; i < bytes_; i += 64) __builtin_prefetch(row + i, write ? 1 : 0, write ? 3 : 2);
    }
  }

 private:
  HeadRows<const T> rows_{};
  int64_t next_ = 0, end_ = 0, bytes_ = 0;
};

}  // namespace tessera::kernels::cpu
