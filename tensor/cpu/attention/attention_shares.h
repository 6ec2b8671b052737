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

/// The forward's shares: ranges of equal cost in the row of all tiles of queries of all heads.
class QueryShares {
 public:
  QueryShares(const AttentionCall& call, const AttentionExtents& e, int64_t most_threads,
              int64_t grain = attention_grain);

  int64_t count() const { return static_cast<int64_t>(edges_.size()) - 1; }
  /// Calls visit(head, first query, end query) for the parts of shares `begin` to `end`, in their order.
  /// Heads are counted over batch and heads.
  template <class Visit>
  void for_each(int64_t begin, int64_t end, const Visit& visit) const {
    for (int64_t tile = edges_[static_cast<size_t>(begin)]; tile < edges_[static_cast<size_t>(end)];) {
      const int64_t head = tile / tiles_, first = tile % tiles_;
      const int64_t last = std::min(tiles_, first + edges_[static_cast<size_t>(end)] - tile);
      visit(head, first * attention_tile, std::min(last * attention_tile, queries_));
      tile += last - first;
    }
  }

 private:
  int64_t queries_, tiles_;  ///< of a head
  std::vector<int64_t> edges_;
};

/// Deals out jobs so that the busiest thread has little to do: the dearest job first, each to the thread with
/// the least so far (Graham 1969: at most 4/3 of the best). Returns the jobs of each thread.
std::vector<std::vector<int64_t>> deal_by_cost(std::span<const int64_t> costs, int64_t threads);

}  // namespace tessera::kernels::cpu
