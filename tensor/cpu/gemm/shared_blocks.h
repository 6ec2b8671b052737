#pragma once  // internal

#include <atomic>
#include <cstdint>
#include <vector>

#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {

/// A grid of blocks of c (m, n) and the threads that share it.
struct SharedGrid {
  int64_t height, width;  ///< of a block
  int64_t down, across;   ///< blocks
  int64_t threads;

  int64_t blocks() const { return down * across; }
};

/// The largest blocks of at most (most_rows, most_columns), in multiples of `unit`, that up to `threads`
/// threads share evenly: none has more than a tenth above the mean. Eight rows of blocks for each thread
/// where there are that many, so that the last blocks end close together. Where no blocks are even, those
/// that come closest, and no more threads than end the product sooner.
SharedGrid shared_grid(int64_t m, int64_t n, int64_t threads, int64_t unit, int64_t most_rows,
                       int64_t most_columns);

/// Calls a function for every block of a grid, dynamically: a thread begins with the blocks of its rows, down
/// these for one column after another, and then takes some of the others'. A thread that is delayed (by
/// another program on its core, or a slower core) then does not delay the product. For kernels with bits
/// that do not depend on the cut. Threads that have no blocks left look at those of their own group of eight
/// first, and at other groups only while these have any: what a thread reads at the end does not grow with
/// the square of their number.
class SharedBlocks {
 public:
  explicit SharedBlocks(const SharedGrid& grid)
      : grid_(grid),
        begun_(static_cast<size_t>(grid.threads)),
        empty_(static_cast<size_t>((grid.threads + group - 1) / group)) {}

  /// multiply(row, column) of the grid, in all threads.
  template <class Multiply>
  void for_each(const Multiply& multiply) {
    parallel_for(grid_.threads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t thread = begin; thread < end; ++thread) take_all(thread, multiply);
    });
  }

 private:
  static constexpr int64_t group = 8;
  struct alignas(64) Begun {
    std::atomic<int64_t> blocks{0};
  };
  struct alignas(64) Empty {
    std::atomic<bool> value{false};
  };

  template <class Multiply>
  void take_all(int64_t thread, const Multiply& multiply) {
    const auto groups = static_cast<int64_t>(empty_.size()), own = thread / group;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t index = (own + g) % groups, first = index * group,
                    count = std::min(group, grid_.threads - first);
      Empty& empty = empty_[static_cast<size_t>(index)];
      if (empty.value.load(std::memory_order_relaxed)) continue;
      for (int64_t i = 0; i < count; ++i) take_from(first + (thread + i) % count, multiply);
      empty.value.store(true, std::memory_order_relaxed);
    }
  }

  template <class Multiply>
  void take_from(int64_t thread, const Multiply& multiply) {
    // Where there are fewer rows of blocks than threads, a thread's are a run of the columns'.
    const bool by_rows = grid_.down >= grid_.threads;
    const int64_t all = by_rows ? grid_.down : grid_.blocks(), first = all * thread / grid_.threads,
                  own = all * (thread + 1) / grid_.threads - first,
                  count = by_rows ? own * grid_.across : own;
    std::atomic<int64_t>& begun = begun_[static_cast<size_t>(thread)].blocks;
    while (begun.load(std::memory_order_relaxed) < count) {
      const int64_t i = begun.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return;
      if (by_rows)
        multiply(first + i % own, i / own);
      else
        multiply((first + i) % grid_.down, (first + i) / grid_.down);
    }
  }

  SharedGrid grid_;
  std::vector<Begun> begun_;  // blocks of each thread
  std::vector<Empty> empty_;  // groups of threads that have no block left
};

}  // namespace tessera::kernels::cpu
