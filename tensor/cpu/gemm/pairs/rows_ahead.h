#pragma once  // internal

#include <algorithm>
#include <cstdint>

namespace tessera::kernels::cpu {

/// Rows that are read soon: `fetch` prefetches a few of their lines to the second-level cache, while products
/// of other rows keep the processor busy. Rows that come from memory would otherwise be waited for, since a
/// tile of a product is longer than the instructions that the processor looks ahead, and reads too few bytes
/// of a row for the processor's own prefetch to begin. Results do not depend on it; its speed is measured in
/// the chapter (../README.md).
class RowsAhead {
 public:
  /// Adds `rows` rows of `bytes` bytes, `distance` bytes apart; at most twice.
  void add(const void* first, int64_t distance, int64_t rows, int64_t bytes) {
    if (rows <= 0 || bytes <= 0 || count_ == 2) return;
    blocks_[count_++] = {static_cast<const char*>(first), distance, rows, (bytes + line - 1) / line};
    lines_ += rows * blocks_[count_ - 1].lines;
  }

  bool empty() const { return count_ == 0; }

  /// Divides all lines among `turns` calls of `fetch`. A call has at most as many as find a place in the
  /// processor's queues; then not all lines are prefetched.
  void spread(int64_t turns) { share_ = turns > 0 ? std::min((lines_ + turns - 1) / turns, most_lines) : 0; }

  /// Prefetches the next lines, or those that are left.
  void fetch() {
    for (int64_t i = 0; i < share_ && next_ < count_; ++i) {
      Block& block = blocks_[next_];
      __builtin_prefetch(block.row + line * line_of_row_, 0, 2);
      if (++line_of_row_ < block.lines) continue;
      line_of_row_ = 0;
      block.row += block.distance;
      if (--block.rows == 0) ++next_;
    }
  }

 private:
  static constexpr int64_t line = 64, most_lines = 32;
  struct Block {
    const char* row;
    int64_t distance, rows, lines;
  };
  Block blocks_[2];  // the first `count_` are set
  int count_ = 0, next_ = 0;
  int64_t lines_ = 0, share_ = 0, line_of_row_ = 0;
};

}  // namespace tessera::kernels::cpu
