#include "dist/comm/interface/call_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "dist/comm/interface/communicator.h"

namespace {

using namespace tessera;
using namespace tessera::dist;

using Values = std::vector<uint64_t>;
using RankValues = std::vector<Values>;

constexpr uint64_t unwritten = ~uint64_t{0};
constexpr int64_t small_bytes = 512;
constexpr int64_t lengths[] = {0, 1, 63, 64, 65, 128, 129, 511, 1000, 4097};

/// A combination whose result depends on the order of its arguments.
uint64_t combination(uint64_t a, uint64_t b) {
  return a * 1000003 + b;
}

RankValues inputs(int ranks, int64_t n) {
  RankValues values(static_cast<size_t>(ranks));
  for (size_t r = 0; r < values.size(); ++r)
    for (int64_t i = 0; i < n; ++i) values[r].push_back(r * 100'000 + static_cast<uint64_t>(i));
  return values;
}

/// Elements first, ..., first + n - 1 of the combination over all ranks.
Values combined(const RankValues& values, int64_t first, int64_t n) {
  Values result(values[0].begin() + first, values[0].begin() + first + n);
  for (size_t r = 1; r < values.size(); ++r)
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = combination(result[i], values[r][static_cast<size_t>(first) + i]);
  return result;
}

/// The elements that rank `from` of an uneven all_to_all sends to `to`.
int64_t count(int from, int to) {
  return (from + 1) * (to + 2) % 5 * 20;
}

/// A call on plain arrays, by the plans of all ranks.
class Simulation {
 public:
  /// `call(rank)` is that rank's call.
  template <class Call>
  Simulation(int ranks, Call call) {
    for (int r = 0; r < ranks; ++r) plans.push_back(plan_of(call(r), r, ranks, small_bytes));
  }

  /// `outputs` hold what is there before; in place that is the inputs.
  RankValues run(const RankValues& input, RankValues outputs) const {
    RankValues sources = input;
    for (size_t phase = 0; phase < plans[0].phases.size(); ++phase) {
      for (size_t r = 0; r < plans.size(); ++r)
        receive(static_cast<int>(phase), static_cast<int>(r), sources, outputs[r]);
      sources = outputs;
    }
    return outputs;
  }
  RankValues run(const RankValues& input, int64_t output_length) const {
    return run(input, RankValues(plans.size(), Values(static_cast<size_t>(output_length), unwritten)));
  }

  std::vector<CallPlan> plans;

 private:
  void receive(int phase, int rank, const RankValues& sources, Values& output) const {
    const bool combines = plans[0].phases[static_cast<size_t>(phase)].combines;
    const CallPlan& own = plans[static_cast<size_t>(rank)];
    Values writes(output.size(), 0);
    for (int from = 0; from < std::ssize(plans); ++from) {
      const CallPlan& peer = plans[static_cast<size_t>(from)];
      const ElementRange sent = peer.sent(phase, rank), received = own.received(phase, from);
      REQUIRE(sent.count == received.count);
      REQUIRE(peer.sends_to(rank) == own.receives_from(from));
      REQUIRE(sent.first + sent.count <= std::ssize(sources[static_cast<size_t>(from)]));
      REQUIRE(received.first + received.count <= std::ssize(output));
      for (int64_t i = 0; i < sent.count; ++i) {
        const auto to = static_cast<size_t>(received.first + i);
        const uint64_t value = sources[static_cast<size_t>(from)][static_cast<size_t>(sent.first + i)];
        output[to] = combines && from > 0 ? combination(output[to], value) : value;
        ++writes[to];
      }
    }
    const uint64_t expected = combines ? plans.size() : 1;
    CHECK(std::all_of(writes.begin(), writes.end(), [&](uint64_t n) { return n == 0 || n == expected; }));
  }
};

CheckedCall call_of(CallKind kind, int64_t elements, int root = 0) {
  CheckedCall call;
  call.header = {.bytes = 4 * elements, .kind = kind, .dtype = f32, .root = root};
  return call;
}

/// The same call on all ranks.
Simulation simulation_of(int ranks, const CheckedCall& call) {
  return Simulation(ranks, [&](int) { return call; });
}

/// `body(ranks, n)` for 1 to 8 ranks and tensors of several lengths.
template <class Body>
void for_all(Body body) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (const int64_t n : lengths) {
      CAPTURE(ranks);
      CAPTURE(n);
      body(ranks, n);
    }
}

}  // namespace

TEST_CASE("call plan: an all_reduce combines all inputs in rank order, a large one in a range per rank") {
  for_all([](int ranks, int64_t n) {
    const RankValues x = inputs(ranks, n);
    const Simulation all_reduce = simulation_of(ranks, call_of(CallKind::all_reduce, n));
    CHECK(all_reduce.plans[0].phases.size() == (4 * n <= small_bytes ? 1u : 2u));
    const Values expected = combined(x, 0, n);
    for (const Values& result : all_reduce.run(x, x)) CHECK(result == expected);
    for (const CallPlan& plan : all_reduce.plans) {
      const ElementRange own = plan.received(0, 0);
      CHECK((own.first % range_alignment == 0 || own.count == 0));
    }
  });
}

TEST_CASE(
    "call plan: a reduce_scatter gives each rank its shard of the combination, an all_gather all shards") {
  for_all([](int ranks, int64_t n) {
    const RankValues full = inputs(ranks, n * ranks), shards = inputs(ranks, n);
    const RankValues reduced =
        simulation_of(ranks, call_of(CallKind::reduce_scatter, n * ranks)).run(full, n);
    for (int r = 0; r < ranks; ++r) CHECK(reduced[static_cast<size_t>(r)] == combined(full, r * n, n));
    Values expected;
    for (const Values& shard : shards) expected.insert(expected.end(), shard.begin(), shard.end());
    for (const CallKind kind : {CallKind::all_gather, CallKind::split})
      for (const Values& result : simulation_of(ranks, call_of(kind, n * ranks)).run(shards, n * ranks))
        CHECK(result == expected);
  });
}

TEST_CASE("call plan: a broadcast gives the root's values to all others, and nothing else moves") {
  for_all([](int ranks, int64_t n) {
    const RankValues x = inputs(ranks, n);
    for (int root = 0; root < ranks; ++root) {
      const Simulation broadcast = simulation_of(ranks, call_of(CallKind::broadcast, n, root));
      for (const Values& result : broadcast.run(x, x)) CHECK(result == x[static_cast<size_t>(root)]);
      for (const CallPlan& plan : broadcast.plans) {
        CHECK(plan.sends() == (plan.rank == root));
        for (int r = 0; r < ranks; ++r) CHECK(plan.sends_to(r) == (plan.rank == root && r != root));
      }
    }
  });
}

TEST_CASE("call plan: an all_to_all moves range i of each input to rank i, in the order of the senders") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    CAPTURE(ranks);
    std::vector<std::vector<int64_t>> sent(static_cast<size_t>(ranks)), received(sent);
    for (int r = 0; r < ranks; ++r)
      for (int peer = 0; peer < ranks; ++peer) {
        sent[static_cast<size_t>(r)].push_back(count(r, peer));
        received[static_cast<size_t>(r)].push_back(count(peer, r));
      }
    RankValues x = inputs(ranks, 1000), y(static_cast<size_t>(ranks)), expected(y);
    const Simulation all_to_all(ranks, [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      x[r].resize(static_cast<size_t>(std::accumulate(sent[r].begin(), sent[r].end(), int64_t{0})));
      y[r].resize(static_cast<size_t>(std::accumulate(received[r].begin(), received[r].end(), int64_t{0})),
                  unwritten);
      CheckedCall call = call_of(CallKind::all_to_all, std::ssize(x[r]));
      call.output_counts = received[r];
      call.input_counts = sent[r];
      return call;
    });
    for (const Values& input : x) {
      auto next = input.begin();
      for (int to = 0; to < ranks; ++to) {
        const auto end = next + count(static_cast<int>(&input - x.data()), to);
        expected[static_cast<size_t>(to)].insert(expected[static_cast<size_t>(to)].end(), next, end);
        next = end;
      }
    }
    CHECK(all_to_all.run(x, y) == expected);
  }
}

TEST_CASE("call plan: a message moves between its two ranks alone; a barrier has only headers") {
  CheckedCall send = call_of(CallKind::send, 70), recv = call_of(CallKind::recv, 70);
  send.peer = 1;
  recv.peer = 2;
  const CallPlan sender = plan_of(send, 2, 4), receiver = plan_of(recv, 1, 4);
  for (int r = 0; r < 4; ++r) {
    CHECK(sender.sent(0, r) == ElementRange{.first = 0, .count = r == 1 ? 70 : 0});
    CHECK(receiver.received(0, r) == ElementRange{.first = 0, .count = r == 2 ? 70 : 0});
    CHECK(!sender.receives_from(r));
    CHECK(!receiver.sends_to(r));
  }
  CHECK(plan_of(call_of(CallKind::barrier, 0), 0, 3).phases.empty());
}
