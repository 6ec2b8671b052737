#pragma once  // internal

#include <cstdint>
#include <map>

namespace tessera::dist {

/// The free ranges of a memory. `acquire` uses the beginning of the smallest free range that is large enough;
/// neighbouring free ranges are merged. Sizes and offsets are multiples of 64.
class FreeRanges {
 public:
  static int64_t rounded(int64_t nbytes) { return (nbytes + 63) / 64 * 64; }

  /// The offset of `nbytes`, or -1 where no range is large enough.
  int64_t acquire(int64_t nbytes);
  /// Makes a range free: one that was acquired, or new memory.
  void release(int64_t offset, int64_t nbytes);
  /// The size of the last free range, if it ends at `end`; else 0.
  int64_t free_before(int64_t end) const;

 private:
  std::map<int64_t, int64_t> ranges_;  ///< sizes by offset
};

}  // namespace tessera::dist
