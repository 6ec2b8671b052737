#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/gemm/sharing/shared_work.h"

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

/// Calls a function for every block of a grid, dynamically (shared_work.h): a thread begins with the blocks
/// of its rows, down these for one column after another. For kernels with bits that do not depend on the cut.
class SharedBlocks {
 public:
  explicit SharedBlocks(const SharedGrid& grid) : grid_(grid) {}

  /// multiply(row, column) of the grid, in all threads.
  template <class Multiply>
  void for_each(const Multiply& multiply) const {
    // Where there are fewer rows of blocks than threads, a thread's are a run of the columns'.
    const bool by_rows = grid_.down >= grid_.threads;
    const int64_t all = by_rows ? grid_.down : grid_.blocks();
    const auto first_of = [&](int64_t thread) { return all * thread / grid_.threads; };
    SharedWork(grid_.threads)
        .for_each(
            [&](int64_t owner) {
              const int64_t own = first_of(owner + 1) - first_of(owner);
              return by_rows ? own * grid_.across : own;
            },
            [&] {
              return [&](int64_t owner, int64_t i) {
                const int64_t first = first_of(owner), own = first_of(owner + 1) - first;
                if (by_rows)
                  multiply(first + i % own, i / own);
                else
                  multiply((first + i) % grid_.down, (first + i) / grid_.down);
              };
            });
  }

 private:
  SharedGrid grid_;
};

}  // namespace tessera::kernels::cpu
