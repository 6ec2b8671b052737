#include "dist/comm/process/free_ranges.h"

#include <iterator>

namespace tessera::dist {

int64_t FreeRanges::acquire(int64_t nbytes) {
  nbytes = rounded(nbytes);
  auto best = ranges_.end();
  for (auto range = ranges_.begin(); range != ranges_.end(); ++range)
    if (range->second >= nbytes && (best == ranges_.end() || range->second < best->second)) best = range;
  if (best == ranges_.end()) return -1;
  const auto [offset, size] = *best;
  ranges_.erase(best);
  if (size > nbytes) ranges_.emplace(offset + nbytes, size - nbytes);
  return offset;
}

void FreeRanges::release(int64_t offset, int64_t nbytes) {
  nbytes = rounded(nbytes);
  if (nbytes == 0) return;
  auto next = ranges_.lower_bound(offset);
  if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      nbytes += before->second;
      ranges_.erase(before);
    }
  }
  if (next != ranges_.end() && offset + nbytes == next->first) {
    nbytes += next->second;
    ranges_.erase(next);
  }
  ranges_.emplace(offset, nbytes);
}

int64_t FreeRanges::free_before(int64_t end) const {
  if (ranges_.empty()) return 0;
  const auto& [offset, size] = *ranges_.rbegin();
  return offset + size == end ? size : 0;
}

}  // namespace tessera::dist
