#pragma once  // internal

#include <array>
#include <cstdint>

namespace tessera::kernels::cpu {

/// Rows and columns of c. A block is empty where an extent has fewer steps than blocks.
struct ProductBlock {
  int64_t row, rows, column, columns;
  bool empty() const { return rows == 0 || columns == 0; }
};

/// The unit of a cut, a tile of c, and what a block costs beside its multiply-adds: those in whose time a
/// thread reads or packs one element of an operand. A block of h rows and w columns over k takes the time of
/// k (h w + a_work h + b_work w) multiply-adds; rows that several blocks of a thread share are read once.
struct CutCosts {
  int64_t row_step, column_step;
  int64_t a_work, b_work;
};

/// How c (m, n) is shared by threads. The rows are cut into bands, and the columns of a band among as many
/// threads as its height is worth; so any number of threads divides any matrix:
///
///     c of 100 x 64 for 5 threads, steps of 16:   grid, 2 bands        runs, 1 band
///
///                                                +-------+-------+    +--+--+--+--+
///                                                |   0   |   1   |    |  |  |  |  |
///                                                +----+-----+----+    |0 |--|  |--|  a run goes down the
///                                                | 2  |  3  | 4  |    |--|1 |2 |3 |  steps of a column, then
///                                                |    |     |    |    |1 |--|--|4 |  down those of the next
///                                                +----+-----+----+    +--+--+--+--+
///
/// In a grid a thread has one block. Where that leaves some threads with much more than others (few columns,
/// many threads), a thread takes a run of steps of its band: up to three blocks, each of which packs its own
/// operands, and no thread has more than one step above the mean of its band.
struct ThreadCut {
  int64_t threads = 1, bands = 1;
  int64_t row_step = 1, column_step = 1;
  bool runs = false;

  static constexpr int most_pieces = 3;
  using Pieces = std::array<ProductBlock, most_pieces>;
  /// The blocks of thread `i` of c (m, n); those that it does not need are empty.
  Pieces pieces(int64_t m, int64_t n, int64_t i) const;
};

/// The time of thread `i` in units of k multiply-adds.
int64_t thread_time(const ThreadCut& cut, int64_t m, int64_t n, int64_t i, const CutCosts& costs);

/// The fastest cut of c (m, n) for at most `threads`, by the time of the slowest thread; of equal ones that
/// with the fewest threads, as the others would wait, and then with the most bands, as the operations around
/// a product are cut by rows. Depends on its arguments alone. Remembered per thread.
ThreadCut fastest_cut(int64_t m, int64_t n, int64_t threads, const CutCosts& costs);

}  // namespace tessera::kernels::cpu
