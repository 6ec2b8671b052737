#include "dist/comm/node/thread_ranks.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "dist/comm/interface/fault_injection.h"
#include "dist/launch/launch.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/profile/profiler.h"
#include "tensor/threads/parallel.h"
#include "tests/dist/comm/conformance.h"

namespace {

using namespace tessera;
using namespace tessera::dist;

/// Runs `body` on `ranks` threads; returns the message of what each threw, or "".
std::vector<std::string> run(int ranks, const std::function<void(Communicator&)>& body,
                             const ThreadRankOptions& options = {.timeout = std::chrono::seconds(20)}) {
  ThreadRanks world(ranks, options);
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      const std::shared_ptr<Communicator> communicator = world.take(r);
      set_num_threads(1);
      try {
        body(*communicator);
      } catch (const std::exception& error) {
        errors[r] = error.what();
        world.fail(r, error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace

TEST_CASE("ranks as threads: every collective, dtype, reduction and size") {
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const conformance::Case& each : conformance::cases()) {
      CAPTURE(ranks);
      CAPTURE(std::string(each.name));
      for (const std::string& error : run(ranks, each.body)) CHECK(error == "");
    }
}

TEST_CASE("ranks as threads: a rank that makes another call is an error naming both sides") {
  for (const int ranks : {2, 3})
    for (const conformance::Case& each : conformance::mismatches()) {
      CAPTURE(ranks);
      CAPTURE(std::string(each.name));
      for (const std::string& error : run(ranks, each.body)) CHECK(error == "");
    }
}

TEST_CASE("ranks as threads: the exception of one rank ends the waits of the others with its message") {
  const auto errors = run(3, [](Communicator& c) {
    if (c.rank() == 1) throw std::runtime_error("no milk today");
    const Tensor x = Tensor::zeros({5000}, f32);
    try {
      c.all_reduce(x, Reduction::sum).wait();
    } catch (const PeerFailedError& error) {
      CHECK(error.rank == 1);
      throw;
    }
  });
  CHECK(errors[0] == "rank 1 failed: no milk today");
  CHECK(errors[1] == "no milk today");
  CHECK(errors[2] == "rank 1 failed: no milk today");
}

TEST_CASE(
    "ranks as threads: a rank that leaves without a call that others wait for is named, with the call") {
  const auto errors = run(2, [](Communicator& c) {
    c.barrier().wait();
    if (c.rank() == 1) return;
    try {
      c.all_reduce(Tensor::zeros({4}, f32), Reduction::sum, {.unit = "norm"}).wait();
    } catch (const RankLostError& error) {
      CHECK(error.rank == 1);
      throw;
    }
  });
  CHECK(errors[0] ==
        "rank 1 ended its communication before it completed all_reduce #1 of unit 'norm' (16 bytes)");
  CHECK(errors[1] == "");
}

TEST_CASE("ranks as threads: a rank that is stuck ends the waits of all, and is named") {
  // Rank 2 makes no call; rank 1 waits for it, and rank 0 waits for rank 1.
  std::atomic<int> ended{0};
  const auto stuck = [&ended](Communicator& c) {
    const auto pair = c.split(c.rank() == 0 ? -1 : 0, 0, "pair");
    if (c.rank() == 2) {
      while (ended < 2) std::this_thread::yield();
      return;
    }
    try {
      if (c.rank() == 1)
        pair->barrier().wait();
      else
        c.recv(Tensor::zeros({1}, f32), 1).wait();
    } catch (const CommunicationError&) {
      ++ended;
      throw;
    }
  };
  const auto errors = run(3, stuck, {.timeout = std::chrono::milliseconds(400)});
  CHECK((errors[0] + errors[1]).find(" is stuck: ") != std::string::npos);
  CHECK(ended == 2);
}

TEST_CASE("ranks as threads: a rank that waits for one that makes progress is not lost, nor is that one") {
  // Rank 0 waits for rank 1, which waits for rank 2, which is busy with rank 3 for longer than the timeout.
  const auto busy = [](Communicator& c) {
    const Tensor x = Tensor::zeros({1}, f32);
    if (c.rank() == 0) c.recv(x, 1).wait();
    if (c.rank() == 1) {
      c.recv(x, 2).wait();
      c.send(x, 0).wait();
    }
    for (int i = 0; i < 8; ++i) {
      if (c.rank() == 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        c.send(x, 3).wait();
      }
      if (c.rank() == 3) c.recv(x, 2).wait();
    }
    if (c.rank() == 2) c.send(x, 1).wait();
  };
  for (const std::string& error : run(4, busy, {.timeout = std::chrono::milliseconds(300)}))
    CHECK(error == "");
}

TEST_CASE("ranks as threads: a rank that polls while it works is not stuck") {
  const auto work = [](Communicator& c) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1200);
    while (c.rank() == 1 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      c.poll();
    }
    c.barrier().wait();
  };
  for (const std::string& error : run(2, work, {.timeout = std::chrono::milliseconds(300)}))
    CHECK(error == "");
}

TEST_CASE("ranks as threads: delays at every point of communication do not change results") {
  const auto work = [](Communicator& c, Tensor& result) {
    const auto pairs = c.split(c.rank() / 2, 0, "pairs");
    std::vector<Tensor> tensors;
    std::vector<Work> calls;
    for (int i = 0; i < 12; ++i) {
      const Tensor& x = tensors.emplace_back(Tensor::empty({2000}, f32));
      for (int j = 0; j < 2000; ++j) x.data<float>()[j] = 1.0f / static_cast<float>(1 + j + 7 * c.rank() + i);
      calls.push_back((i % 2 ? c : *pairs).all_reduce(x, Reduction::avg));
    }
    for (size_t i = calls.size(); i-- > 0;) calls[i].wait();
    result = Tensor::empty({12 * 2000}, f32);
    for (int i = 0; i < 12; ++i) result.narrow(0, i * 2000, 2000).copy_from(tensors[i]);
  };
  std::vector<Tensor> expected(4), got(4);
  for (const std::string& error : run(4, [&](Communicator& c) { work(c, expected[c.rank()]); }))
    CHECK(error == "");
  for (uint32_t round = 0; round < 200; ++round) {
    const auto errors = run(4, [&](Communicator& c) {
      uint32_t state = round * 4 + static_cast<uint32_t>(c.rank()) + 1;
      const CommHookScope hook([&](CommPoint, const CallHeader&) {
        state = state * 1664525 + 1013904223;
        if (state >> 30 == 0) std::this_thread::sleep_for(std::chrono::microseconds(state >> 22 & 255));
      });
      work(c, got[c.rank()]);
    });
    for (const std::string& error : errors) CHECK(error == "");
    for (int r = 0; r < 4; ++r)
      CHECK(std::memcmp(expected[r].raw_data(), got[r].raw_data(), static_cast<size_t>(got[r].nbytes())) ==
            0);
  }
}

TEST_CASE("ranks as threads: arguments that do not fit are refused before anything is sent") {
  const auto refused = [](Communicator& c) {
    const Tensor x = Tensor::zeros({6}, f32), y = Tensor::zeros({3}, f32);
    CHECK_THROWS_AS(c.all_gather(y, x), ShapeError);
    CHECK_THROWS_AS(c.all_gather(Tensor::zeros({12}, f64), x), DTypeError);
    CHECK_THROWS_AS(c.reduce_scatter(x, y, Reduction::sum), ShapeError);
    CHECK_THROWS_AS(c.reduce_scatter(x.narrow(0, 1, 3), x, Reduction::sum), ValueError);
    CHECK_THROWS_AS(c.all_reduce(x.slice(0, 0, 6, 2), Reduction::sum), ShapeError);
    CHECK_THROWS_AS(c.all_reduce(Tensor(), Reduction::sum), ShapeError);
    CHECK_THROWS_AS(c.all_reduce(Tensor::empty({4}, f32, meta()), Reduction::sum), DeviceError);
    CHECK_THROWS_AS(c.broadcast(x, 2), IndexError);
    CHECK_THROWS_AS(c.send(x, c.rank()), IndexError);
    CHECK(c.ledger().total().calls == 0);
    c.barrier().wait();
  };
  for (const std::string& error : run(2, refused)) CHECK(error == "");
  CHECK_THROWS_AS(ThreadRanks(0), ConfigError);
}

TEST_CASE("ranks as threads: communication and waits are in the trace, with unit and bytes") {
  Profiler profiler;
  std::atomic<bool> is_waiting[2] = {};
  {
    const ProfilerScope scope(profiler);
    run(2, [&is_waiting](Communicator& c) {
      const ProfilerRankScope rank(c.rank());
      const CommHookScope hook([&](CommPoint point, const CallHeader&) {
        if (point == CommPoint::wait) is_waiting[c.rank()] = true;
      });
      while (c.rank() == 1 && !is_waiting[0]) std::this_thread::yield();
      if (c.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      c.all_reduce(Tensor::zeros({1000}, f32), Reduction::sum, {.unit = "blocks.1"}).wait();
    });
  }
  int collectives = 0;
  int64_t waited = 0;
  for (const Profiler::Row& row : profiler.rows())
    for (const Span& span : row.spans) {
      if (span.kind == SpanKind::collective) {
        ++collectives;
        CHECK(row.name == "communication");
        CHECK(std::string(span.name) == "all_reduce");
        CHECK(std::string(span.module) == "blocks.1");
        CHECK(span.bytes == 4000);
      }
      if (span.kind == SpanKind::wait && row.rank == 0) waited = std::max(waited, span.end - span.begin);
    }
  CHECK(collectives == 2);
  CHECK(waited > 1'000'000);
}

TEST_CASE("ranks as threads: messages that are posted while the receiver searches come in order") {
  std::atomic<bool> is_searching = false, is_sent = false;
  const auto body = [&](Communicator& c) {
    const Tensor first = ops::full({1}, 1.0f, f32), second = ops::full({3}, 2.0f, f32);
    if (c.rank() == 0) {
      while (!is_searching) std::this_thread::yield();
      Work sent[] = {c.send(first, 1), c.send(second, 1)};
      c.poll();
      is_sent = true;
      for (Work& work : sent) work.wait();
      return;
    }
    // The receiver has found no message in the first place when both are posted, the first one there.
    const CommHookScope hook([&](CommPoint point, const CallHeader&) {
      if (point != CommPoint::search || is_searching.exchange(true)) return;
      while (!is_sent) std::this_thread::yield();
    });
    const Tensor a = Tensor::zeros({1}, f32), b = Tensor::zeros({3}, f32);
    c.recv(a, 0).wait();
    c.recv(b, 0).wait();
    require<ValueError>(a.item() == 1.0 && b[0].item() == 2.0, "expected 1 and 2, got ", a.item(), " and ",
                        b[0].item());
  };
  for (const std::string& error : run(2, body)) CHECK(error == "");
}

TEST_CASE("ranks as threads: receives of one tag that are posted together take their messages in order") {
  dist::launch(
      [](dist::World& world) {
        dist::Communicator& all = world.communicator();
        // Messages come while the receiver is between two places that it searches.
        const dist::CommHookScope slow_search([](dist::CommPoint point, const dist::CallHeader&) {
          if (point == dist::CommPoint::search) std::this_thread::sleep_for(std::chrono::microseconds(20));
        });
        for (int round = 0; round < 2000; ++round) {
          const Tensor a = Tensor::from({1.0 * round}), b = Tensor::from({2.0 * round});
          all.barrier().wait();
          if (world.rank() == 0) {
            std::this_thread::sleep_for(std::chrono::microseconds(round % 200));
            dist::Work first = all.send(a, 1, 5), second = all.send(b, 1, 5);
            first.wait();
            second.wait();
            continue;
          }
          const Tensor x = Tensor::empty({1}, f64), y = Tensor::empty({1}, f64);
          dist::Work first = all.recv(x, 0, 5), second = all.recv(y, 0, 5);
          second.wait();
          first.wait();
          if (x.item() != a.item() || y.item() != b.item())
            throw ValueError(text("round ", round, ": got ", x.item(), " and ", y.item()));
        }
      },
      {.virtual_ranks = 2, .timeout = std::chrono::seconds(60)});
}
