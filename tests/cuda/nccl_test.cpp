// The conformance tests over NCCL, simulated by tests/cuda/simulated_nccl.cpp: ranks are threads, their
// tensors lie in host memory.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <barrier>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "dist/comm/nccl/communicator.h"
#include "dist/comm/node/thread_ranks.h"
#include "tests/dist/comm/conformance.h"

namespace {

using namespace tessera;
using namespace tessera::dist;
using std::chrono::milliseconds;

/// Runs `body` on `ranks` threads, once all have a communicator; returns the message of what each threw, or
/// "".
std::vector<std::string> run(int ranks, const std::function<void(Communicator&)>& body,
                             milliseconds timeout = std::chrono::seconds(20)) {
  ThreadRanks world(ranks, {.timeout = timeout});
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::barrier made(ranks);
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        const auto group = nccl::make_communicator(world.take(r), cpu(), timeout);
        made.arrive_and_wait();
        body(*group);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(r)] = error.what();
        world.fail(r, error.what());
        made.arrive_and_drop();
      }
    });
  threads.clear();
  return errors;
}

}  // namespace

TEST_CASE("NCCL: every collective, dtype, reduction and size; tags; groups without some ranks") {
  for (const int ranks : {1, 2, 3, 4})
    for (const conformance::Case& each : conformance::cases()) {
      CAPTURE(ranks);
      CAPTURE(std::string(each.name));
      for (const std::string& error : run(ranks, each.body)) CHECK(error == "");
    }
}

TEST_CASE("NCCL: a rank that makes another call, messages too, is an error naming both sides") {
  for (const int ranks : {2, 3})
    for (const conformance::Case& each : conformance::mismatches()) {
      CAPTURE(ranks);
      CAPTURE(std::string(each.name));
      for (const std::string& error : run(ranks, each.body)) CHECK(error == "");
    }
}

TEST_CASE("NCCL: a missing rank ends the start of the others within the timeout") {
  ThreadRanks world(2, {.timeout = milliseconds(500)});
  const auto absent = world.take(1);
  const auto first = world.take(0);
  std::jthread other([&] { absent->split(0, 1, "world"); });
  CHECK_THROWS_AS(nccl::make_communicator(first, cpu(), milliseconds(200)), CommunicationError);
}

TEST_CASE("NCCL: a wait up to its deadline is an error that names the rank without the call") {
  run(
      2,
      [](Communicator& c) {
        if (c.rank() == 1) return std::this_thread::sleep_for(milliseconds(900));
        const Work sum = c.all_reduce(Tensor::zeros({4}, f32), Reduction::sum);
        CHECK_THROWS_WITH_AS(
            sum.wait_output(),
            "all_reduce #0 (16 bytes) of group 'world' was not over after 300 ms: it waits for rank 1",
            RankLostError);
      },
      milliseconds(300));
}

TEST_CASE("NCCL: a group with a call that the other rank never makes is closed within the timeout") {
  const auto errors = run(
      2,
      [](Communicator& c) {
        if (c.rank() == 0) c.send(Tensor::zeros({100000}, f32), 1, 3);
      },
      milliseconds(300));
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("NCCL: messages to a rank that fails are errors, and the group closes") {
  // Of many messages, each with a channel of its own, one meets the failure while its channel is made.
  for (int round = 0; round < 60; ++round)
    run(2, [](Communicator& c) {
      require<CommunicationError>(c.rank() == 0, "rank 1 fails");
      std::vector<Work> sent;
      CHECK_THROWS_AS(
          for (int tag = 1;; ++tag) {
            sent.push_back(c.send(Tensor::zeros({4}, f32), 1, tag));
            c.poll();
          },
          Error);
    });
}
