#include "tensor/cpu/attention/attention_shares.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

namespace tessera::kernels::cpu {
namespace {

// The time of a tile beside its keys, in keys.
constexpr int64_t tile_work = 16;

// One in how many parts the busiest thread may have more, where fewer threads are enough then.
constexpr int64_t more_of_busiest = 100;

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

namespace {

/// The jobs of each thread, and the cost of the busiest.
struct Dealt {
  std::vector<std::vector<int64_t>> jobs;
  int64_t busiest = 0;
};

/// Each of the jobs in `order` to the thread with the least so far.
Dealt deal_to_least(std::span<const int64_t> order, std::span<const int64_t> costs, int64_t threads) {
  using Load = std::pair<int64_t, int64_t>;  // and its thread
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int64_t t = 0; t < threads; ++t) loads.emplace(0, t);
  Dealt dealt{.jobs = std::vector<std::vector<int64_t>>(static_cast<size_t>(threads))};
  for (const int64_t job : order) {
    auto [load, thread] = loads.top();
    loads.pop();
    load += costs[static_cast<size_t>(job)];
    dealt.jobs[static_cast<size_t>(thread)].push_back(job);
    dealt.busiest = std::max(dealt.busiest, load);
    loads.emplace(load, thread);
  }
  return dealt;
}

/// Each of the jobs in `order` to the thread that it leaves with the least room, where none may cost more
/// than `capacity`; to a new thread where it fits nowhere.
std::vector<std::vector<int64_t>> deal_to_fullest(std::span<const int64_t> order,
                                                  std::span<const int64_t> costs, int64_t capacity) {
  std::vector<std::vector<int64_t>> jobs;
  std::multimap<int64_t, size_t> rooms;  // of the threads
  for (const int64_t job : order) {
    const int64_t cost = costs[static_cast<size_t>(job)];
    int64_t room = capacity;
    size_t thread = jobs.size();
    if (const auto found = rooms.lower_bound(cost); found != rooms.end()) {
      std::tie(room, thread) = *found;
      rooms.erase(found);
    } else {
      jobs.emplace_back();
    }
    jobs[thread].push_back(job);
    rooms.emplace(room - cost, thread);
  }
  return jobs;
}

}  // namespace

std::vector<std::vector<int64_t>> deal_by_cost(std::span<const int64_t> costs, int64_t threads) {
  std::vector<int64_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return costs[static_cast<size_t>(a)] > costs[static_cast<size_t>(b)];
  });
  Dealt dealt = deal_to_least(order, costs, threads);
  const int64_t all = std::accumulate(costs.begin(), costs.end(), int64_t{0});
  if (10 * all >= 9 * threads * dealt.busiest && all > 0) return std::move(dealt.jobs);
  std::vector<std::vector<int64_t>> fewer =
      deal_to_fullest(order, costs, dealt.busiest + dealt.busiest / more_of_busiest);
  return std::move(std::ssize(fewer) < threads ? fewer : dealt.jobs);
}

}  // namespace tessera::kernels::cpu
