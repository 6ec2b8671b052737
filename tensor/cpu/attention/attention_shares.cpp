#include "tensor/cpu/attention/attention_shares.h"

#include <algorithm>
#include <numeric>

namespace tessera::kernels::cpu {
namespace {

// The time of a tile beside its keys, in keys.
constexpr int64_t tile_work = 16;

}  // namespace

int64_t attention_threads(int64_t pairs, int64_t width, int64_t most, int64_t grain) {
  return std::clamp<int64_t>(2 * pairs * width / grain, 1, most);
}

bool deals_evenly(int64_t count, int64_t threads) {
  const int64_t most = (count + threads - 1) / threads;
  return 10 * count >= 9 * threads * most;
}

QueryShares::QueryShares(const AttentionCall& call, const AttentionExtents& e, int64_t most_threads,
                         int64_t grain)
    : queries_(e.queries), tiles_((e.queries + attention_tile - 1) / attention_tile) {
  const int64_t heads = e.batch * e.heads,
                threads = attention_threads(heads * e.queries * e.keys, e.width, most_threads, grain);
  if (deals_evenly(heads, threads)) {
    for (int64_t i = 0; i <= threads; ++i) edges_.push_back(heads * i / threads * tiles_);
    return;
  }
  std::vector<int64_t> before{0};  // the cost of the tiles before each one
  before.reserve(static_cast<size_t>(heads * tiles_ + 1));
  for (int64_t head = 0; head < heads; ++head) {
    const VisibleKeys visible(call, e, head / e.heads, head % e.heads);
    for (int64_t i = 0; i < queries_; i += attention_tile) {
      const int64_t last = std::min(i + attention_tile, queries_) - 1;
      before.push_back(before.back() + tile_work +
                       std::max<int64_t>(visible.end(last) - visible.begin(i), 0));
    }
  }
  for (int64_t i = 0; i <= threads; ++i)
    edges_.push_back(std::lower_bound(before.begin(), before.end(), before.back() * i / threads) -
                     before.begin());
}

std::vector<std::vector<int64_t>> deal_by_cost(std::span<const int64_t> costs, int64_t threads) {
  std::vector<int64_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return costs[static_cast<size_t>(a)] > costs[static_cast<size_t>(b)];
  });
  std::vector<std::vector<int64_t>> jobs(static_cast<size_t>(threads));
  std::vector<int64_t> load(static_cast<size_t>(threads));
  for (const int64_t job : order) {
    const auto least = std::min_element(load.begin(), load.end()) - load.begin();
    jobs[static_cast<size_t>(least)].push_back(job);
    load[static_cast<size_t>(least)] += costs[static_cast<size_t>(job)];
  }
  return jobs;
}

}  // namespace tessera::kernels::cpu
