#pragma once  // internal

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/cpu/attention/attention_extents.h"

/// How threads share attention. Whole heads where there are enough of them; else tiles of queries in the
/// forward, and blocks of keys in the backward. The bits of a result depend on none of this.
namespace tessera::kernels::cpu {

/// The fewest multiply-adds for which a second thread is worth its start.
inline constexpr int64_t attention_grain = 1 << 17;

/// The threads that `pairs` of a query and a key are worth, at most `most`.
int64_t attention_threads(int64_t pairs, int64_t width, int64_t most, int64_t grain = attention_grain);

/// Whether dealing out `count` equal parts leaves no thread with a tenth less than another.
bool deals_evenly(int64_t count, int64_t threads);

/// Queries `first` to `end` of a head; heads are counted over batch and heads.
struct QueryPart {
  int64_t head, first, end;
};

/// The forward's shares: ranges of equal cost in the row of all tiles of queries of all heads. A share is
/// made of parts, each within a head, that a thread with nothing left takes from another.
class QueryShares {
 public:
  QueryShares(const AttentionCall& call, const AttentionExtents& e, int64_t most_threads,
              int64_t grain = attention_grain);

  int64_t count() const { return static_cast<int64_t>(edges_.size()) - 1; }
  /// The parts of a share, and one of them, in their order.
  /// @{
  int64_t parts(int64_t share) const {
    const int64_t begin = edges_[static_cast<size_t>(share)], end = edges_[static_cast<size_t>(share + 1)];
    return begin < end ? part_of(end - 1) - part_of(begin) + 1 : 0;
  }
  QueryPart part(int64_t share, int64_t i) const {
    const int64_t begin = edges_[static_cast<size_t>(share)], end = edges_[static_cast<size_t>(share + 1)],
                  index = part_of(begin) + i, head = index / parts_of_head(),
                  first = head * tiles_ + index % parts_of_head() * part_tiles,
                  last = std::min(first + part_tiles, (head + 1) * tiles_);
    return {head, (std::max(first, begin) - head * tiles_) * attention_tile,
            std::min((std::min(last, end) - head * tiles_) * attention_tile, queries_)};
  }
  /// @}

 private:
  static constexpr int64_t part_tiles = 16;  ///< a thread that takes a part packs its keys again

  int64_t parts_of_head() const { return (tiles_ + part_tiles - 1) / part_tiles; }
  /// The part that a tile belongs to.
  int64_t part_of(int64_t tile) const { return tile / tiles_ * parts_of_head() + tile % tiles_ / part_tiles; }

  int64_t queries_, tiles_;  ///< of a head
  std::vector<int64_t> edges_;
};

/// Deals out jobs so that the busiest thread has little to do: the dearest job first, each to the thread with
/// the least so far (Graham 1969: at most 4/3 of the best). Where others would wait for it, it then deals
/// them to fewer threads with at most a hundredth more than it has, each to the one that is fullest (best-fit
/// decreasing). Returns the jobs of each thread in use; none where there are no jobs.
std::vector<std::vector<int64_t>> deal_by_cost(std::span<const int64_t> costs, int64_t threads);

}  // namespace tessera::kernels::cpu
