#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "dist/launch/launch.h"
#include "tensor/memory/account.h"
#include "tensor/threads/parallel.h"

using namespace tessera;

namespace {

dist::LaunchOptions ranks(int count) {
  dist::LaunchOptions options;
  options.virtual_ranks = count;
  options.timeout = std::chrono::seconds(20);
  return options;
}

}  // namespace

TEST_CASE("launch: the body runs once per rank, each with its own World; rank 0's result is returned") {
  for (const int count : {1, 2, 5}) {
    std::mutex mutex;
    std::set<int> ranks_run;
    std::set<std::thread::id> threads;
    const int result = dist::launch(
        [&](dist::World& world) {
          const Tensor sum = Tensor::from<int64_t>({world.rank() + 1});
          world.communicator().all_reduce(sum, dist::Reduction::sum).wait();
          const std::lock_guard lock(mutex);
          ranks_run.insert(world.rank());
          threads.insert(std::this_thread::get_id());
          CHECK(world.size() == count);
          CHECK(world.local_rank() == world.rank());
          CHECK(world.local_size() == count);
          CHECK(!world.host().empty());
          CHECK(sum.item() == count * (count + 1) / 2);
          return 10 + world.rank();
        },
        ranks(count));
    CHECK(result == 10);
    CHECK(std::ssize(ranks_run) == count);
    CHECK(std::ssize(threads) == count);
  }
}

TEST_CASE("launch: a body without a result returns 0") {
  CHECK(dist::launch([](dist::World&) {}) == 0);
}

TEST_CASE("launch: ranks share the threads, and each has its own memory account") {
  const int before = num_threads();
  const intrusive_ptr<MemoryAccount> outside = current_account();
  set_num_threads(7);
  dist::launch(
      [&](dist::World& world) {
        CHECK(num_threads() == 2);
        CHECK(current_account().get() != outside.get());
        const Tensor own = Tensor::empty({1000 * (world.rank() + 1)}, f32);
        CHECK(current_account()->total().current >= own.nbytes());
        world.communicator().barrier().wait();
        CHECK(current_account()->total().current < own.nbytes() + 2000);
      },
      ranks(3));
  set_num_threads(before);
}

TEST_CASE("launch: the first exception is thrown, and the other ranks end with PeerFailedError") {
  std::atomic<int> ended = 0;
  const auto body = [&](dist::World& world) {
    if (world.rank() == 2) throw std::out_of_range("rank two cannot go on");
    try {
      world.communicator().barrier().wait();
    } catch (const dist::PeerFailedError& error) {
      CHECK(error.rank == 2);
      CHECK(std::string(error.what()).find("rank two cannot go on") != std::string::npos);
      ++ended;
      throw;
    }
  };
  CHECK_THROWS_WITH_AS(dist::launch(body, ranks(4)), "rank two cannot go on", std::out_of_range);
  CHECK(ended == 3);
}

TEST_CASE("launch: an exception that is no std::exception ends all ranks too") {
  const auto body = [](dist::World& world) {
    if (world.rank() == 0) throw 17;
    world.communicator().barrier().wait();
  };
  CHECK_THROWS_AS(dist::launch(body, ranks(2)), int);
}

TEST_CASE("launch: less than one rank is an error") {
  CHECK_THROWS_AS(dist::launch([](dist::World&) {}, ranks(0)), ConfigError);
}

TEST_CASE("launch: a number of threads also applies to a single rank, for the time of the body") {
  const int before = num_threads();
  dist::LaunchOptions options = ranks(1);
  options.threads = before + 1;
  int inside = 0;
  dist::launch([&](dist::World&) { return inside = num_threads(), 0; }, options);
  CHECK(inside == before + 1);
  CHECK(num_threads() == before);
  options.threads = 0;
  dist::launch([&](dist::World&) { return inside = num_threads(), 0; }, options);
  CHECK(inside == before);
}
