#include "tensor/cpu/gemm/sharing/thread_cut.h"

#include <algorithm>

namespace tessera::kernels::cpu {
namespace {

int64_t steps_of(int64_t extent, int64_t step) {
  return (extent + step - 1) / step;
}

/// The block of steps [i0, i1) of rows by [j0, j1) of columns.
ProductBlock block_of(const ThreadCut& cut, int64_t m, int64_t n, int64_t i0, int64_t i1, int64_t j0,
                      int64_t j1) {
  if (i0 >= i1 || j0 >= j1) return {};
  const int64_t row = i0 * cut.row_step, column = j0 * cut.column_step;
  return {row, std::min(m, i1 * cut.row_step) - row, column, std::min(n, j1 * cut.column_step) - column};
}

/// The time of the slowest thread, or of one that takes `limit` or longer.
int64_t time_of(const ThreadCut& cut, int64_t m, int64_t n, const CutCosts& costs, int64_t limit) {
  int64_t slowest = 0;
  for (int64_t i = 0; i < cut.threads && slowest < limit; ++i)
    slowest = std::max(slowest, thread_time(cut, m, n, i, costs));
  return slowest;
}

struct TimedCut {
  ThreadCut cut;
  int64_t time;
};

/// The best cut for `threads` of those that take less than `limit`; time = limit: there is none.
TimedCut find_cut(int64_t m, int64_t n, int64_t threads, const CutCosts& costs, int64_t limit) {
  TimedCut best{{}, limit};
  const int64_t most_bands = std::min(threads, steps_of(m, costs.row_step));
  for (const bool runs : {false, true})
    for (int64_t bands = most_bands; bands >= 1; --bands) {
      const ThreadCut cut{threads, bands, costs.row_step, costs.column_step, runs};
      const int64_t time = time_of(cut, m, n, costs, best.time);
      if (time < best.time) best = {cut, time};
    }
  return best;
}

/// The best cut for as few threads as take no longer than all of them.
ThreadCut find_cut(int64_t m, int64_t n, int64_t threads, const CutCosts& costs) {
  const TimedCut best = find_cut(m, n, threads, costs, INT64_MAX);
  if (best.time == 0) return best.cut;
  // The multiply-adds alone take as many threads.
  for (int64_t fewer = (m * n + best.time - 1) / best.time; fewer < threads; ++fewer)
    if (const TimedCut found = find_cut(m, n, fewer, costs, best.time + 1); found.time <= best.time)
      return found.cut;
  return best.cut;
}

}  // namespace

int64_t thread_time(const ThreadCut& cut, int64_t m, int64_t n, int64_t i, const CutCosts& costs) {
  int64_t time = 0, first = m, last = 0;
  for (const ProductBlock& piece : cut.pieces(m, n, i)) {
    if (piece.empty()) continue;
    time += piece.rows * piece.columns + costs.b_work * piece.columns;
    first = std::min(first, piece.row);
    last = std::max(last, piece.row + piece.rows);
  }
  return time + costs.a_work * std::max<int64_t>(last - first, 0);
}

ThreadCut::Pieces ThreadCut::pieces(int64_t m, int64_t n, int64_t i) const {
  const int64_t rows = steps_of(m, row_step), columns = steps_of(n, column_step);
  const int64_t band = ((i + 1) * bands - 1) / threads;  // the last whose first thread is at most i
  const int64_t first = threads * band / bands, count = threads * (band + 1) / bands - first;
  // Edges are rounded to the nearest step.
  const auto edge = [&](int64_t thread) { return (2 * rows * thread + threads) / (2 * threads); };
  const int64_t i0 = edge(first), i1 = edge(first + count), height = i1 - i0, k = i - first;
  Pieces pieces{};
  if (!runs) {
    pieces[0] = block_of(*this, m, n, i0, i1, columns * k / count, columns * (k + 1) / count);
    return pieces;
  }
  if (height == 0) return pieces;
  const int64_t steps = height * columns, begin = steps * k / count, end = steps * (k + 1) / count;
  if (begin == end) return pieces;
  const int64_t first_column = begin / height, last_column = (end - 1) / height;
  if (first_column == last_column) {
    const int64_t base = first_column * height;
    pieces[0] = block_of(*this, m, n, i0 + begin - base, i0 + end - base, first_column, first_column + 1);
    return pieces;
  }
  // Whole columns are one block; a part of a column before and after them are blocks of their own.
  const int64_t whole_begin = steps_of(begin, height), whole_end = end / height;
  pieces[0] = block_of(*this, m, n, i0 + begin - first_column * height, i1, first_column, whole_begin);
  pieces[1] = block_of(*this, m, n, i0, i1, whole_begin, whole_end);
  pieces[2] = block_of(*this, m, n, i0, i0 + end - whole_end * height, whole_end, whole_end + 1);
  return pieces;
}

namespace {

/// The cuts of the products that a thread met last. A search over many threads takes longer than a small
/// product, and a step repeats its shapes.
class KnownCuts {
 public:
  ThreadCut find(int64_t m, int64_t n, int64_t threads, const CutCosts& costs) {
    const std::array<int64_t, key_size> key{
        m, n, threads, costs.row_step, costs.column_step, costs.a_work, costs.b_work};
    Set& set = sets_[place_of(key)];
    for (const Known& known : set.known)
      if (known.key == key) return known.cut;
    Known& oldest = set.known[set.oldest];
    set.oldest = (set.oldest + 1) % ways;
    oldest = {key, find_cut(m, n, threads, costs)};
    return oldest.cut;
  }

 private:
  static constexpr size_t key_size = 7, ways = 4, sets = 64;
  using Key = std::array<int64_t, key_size>;
  struct Known {
    Key key{};  // m = 0: no product has this key
    ThreadCut cut;
  };
  struct Set {
    std::array<Known, ways> known;
    size_t oldest = 0;
  };

  static size_t place_of(const Key& key) {
    uint64_t mixed = 0;
    for (const int64_t part : key) {
      mixed = (mixed ^ static_cast<uint64_t>(part)) * 0x9E3779B97F4A7C15u;
      mixed ^= mixed >> 29;
    }
    return mixed % sets;
  }

  std::array<Set, sets> sets_;
};

}  // namespace

ThreadCut fastest_cut(int64_t m, int64_t n, int64_t threads, const CutCosts& costs) {
  if (threads == 1) return {1, 1, costs.row_step, costs.column_step, false};
  thread_local KnownCuts known;
  return known.find(m, n, threads, costs);
}

}  // namespace tessera::kernels::cpu
