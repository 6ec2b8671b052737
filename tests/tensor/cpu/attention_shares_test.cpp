// How threads share attention: every tile of queries once, and no thread with much more than others.
#include "tensor/cpu/attention/attention_shares.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tensor/cpu/attention/attention_head_backward.h"
#include "tests/tensor/test_values.h"

using namespace tessera;
using namespace tessera::kernels::cpu;

namespace {

struct Sizes {
  int64_t batch, heads, time, width;
};
// tiny, nano-cpu, nano, width-768, gpt-lite, gpt2, and few heads with long contexts.
constexpr Sizes presets[] = {{4, 2, 32, 32},    {12, 4, 64, 32},   {64, 6, 256, 64}, {2, 12, 512, 64},
                             {1, 12, 2048, 64}, {1, 12, 1024, 64}, {1, 2, 4096, 64}, {3, 5, 777, 32}};

AttentionCall call_of(const Sizes& s) {
  AttentionCall call{};
  call.q = call.k = call.v = Tensor::empty({s.batch, s.heads, s.time, s.width}, f32, meta());
  call.causal = true;
  return call;
}

}  // namespace

TEST_CASE("attention shares: 1 to 128 threads visit as many keys, within a tenth or a tile") {
  for (const Sizes& s : presets) {
    const AttentionCall call = call_of(s);
    const AttentionExtents e(call);
    const VisibleKeys visible(call, e, 0, 0);
    for (int64_t threads = 1; threads <= 128; ++threads) {
      const QueryShares shares(call, e, threads);
      REQUIRE(shares.count() <= threads);
      std::vector<int> seen(static_cast<size_t>(s.batch * s.heads * s.time));
      int64_t all = 0, most = 0;
      for (int64_t i = 0; i < shares.count(); ++i) {
        int64_t keys = 0;
        for (int64_t k = 0; k < shares.parts(i); ++k) {
          const auto [head, first, end] = shares.part(i, k);
          REQUIRE(first < end);
          REQUIRE(first % attention_tile == 0);
          for (int64_t q = first; q < end; ++q) ++seen[static_cast<size_t>(head * s.time + q)];
          // A tile visits the keys of its last query, and takes the time of some more.
          for (int64_t q = first; q < end; q += attention_tile)
            keys += visible.end(std::min(q + attention_tile, end) - 1) + 16;
        }
        all += keys;
        most = std::max(most, keys);
      }
      INFO(s.heads, " heads of ", s.time, ", threads: ", threads);
      CHECK(std::count(seen.begin(), seen.end(), 1) == std::ssize(seen));
      // Or within a tile that sees all keys.
      const int64_t mean = all / shares.count();
      CHECK((mean * 10 >= 9 * most || most - mean <= s.time + 16));
    }
  }
}

namespace {

struct Dealt {
  int64_t threads, busiest;
};

/// Deals the jobs and requires each of them once; returns the threads in use and the cost of the busiest.
Dealt deal(const std::vector<int64_t>& costs, int64_t threads) {
  const auto jobs = deal_by_cost(costs, threads);
  REQUIRE(std::ssize(jobs) <= threads);
  std::vector<int> dealt(costs.size());
  int64_t most = 0;
  for (const auto& of_thread : jobs) {
    int64_t cost = 0;
    for (const int64_t job : of_thread) {
      ++dealt[static_cast<size_t>(job)];
      cost += costs[static_cast<size_t>(job)];
    }
    most = std::max(most, cost);
  }
  REQUIRE(std::count(dealt.begin(), dealt.end(), 1) == std::ssize(dealt));
  return {std::ssize(jobs), most};
}

}  // namespace

TEST_CASE("attention shares: jobs dealt by cost") {
  // The blocks of keys of gpt-lite's backward: 12 heads, 16 blocks that 2048, 1920, ... queries see.
  std::vector<int64_t> costs;
  for (int64_t head = 0; head < 12; ++head)
    for (int64_t block = 0; block < 16; ++block) costs.push_back(2048 - 128 * block);
  const int64_t all = std::accumulate(costs.begin(), costs.end(), int64_t{0});
  for (int64_t threads = 1; threads <= 128; ++threads) {
    const auto [in_use, most] = deal(costs, threads);
    // From 102 threads on the first block of a head alone is more than a thread's share.
    INFO(threads, " threads, busiest ", most, ", share ", all / threads);
    CHECK((most == 2048 || all * 100 >= 88 * threads * most));
    CHECK(all * 10 >= 9 * in_use * most);
  }
  CHECK(deal_by_cost({}, 3).empty());
}

TEST_CASE("attention shares: 1 to 128 threads are dealt the backward's blocks of keys evenly") {
  int64_t plans = 0, slow = 0;
  for (const Sizes& s : presets) {
    if (s.time <= key_block) continue;  // one block: the threads share whole heads
    const AttentionCall call = call_of(s);
    const AttentionExtents e(call);
    std::vector<int64_t> costs;  // of a block: the queries that see it
    for (int64_t head = 0; head < e.batch * e.heads; ++head)
      for (int64_t j = 0; j < e.keys; j += key_block) {
        const QueryRange seen = queries_of(VisibleKeys(call, e, 0, 0), e, j);
        costs.push_back(1 + seen.end - seen.first);
      }
    const int64_t all = std::accumulate(costs.begin(), costs.end(), int64_t{0}),
                  dearest = *std::max_element(costs.begin(), costs.end());
    for (int64_t most_threads = 1; most_threads <= 128; ++most_threads) {
      const int64_t threads =
          attention_threads(e.batch * e.heads * e.queries * e.keys, e.width, most_threads);
      if (deals_evenly(e.batch * e.heads, threads)) continue;  // whole heads
      const auto [in_use, most] = deal(costs, threads);
      INFO(s.heads, " heads of ", s.time, ", ", in_use, " of ", threads, " threads, busiest ", most,
           ", share ", all / threads);
      ++plans;
      // All of those in use, but for odd numbers of heads and keys.
      CHECK(100 * all >= (s.time == 777 ? 88 : 90) * in_use * most);
      // No dealing is faster where the dearest block alone is a thread's share.
      if (100 * most <= 101 * dearest) continue;
      if (10 * all < 9 * threads * most) ++slow;
      CHECK(100 * all >= 66 * threads * most);
    }
  }
  INFO(plans, " plans, ", slow, " slow");
  CHECK(plans > 300);
  CHECK(slow * 4 < plans);
}
