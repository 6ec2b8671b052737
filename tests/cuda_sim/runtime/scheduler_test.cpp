// The order of operations: streams, waits, three orders, deadlocks; without a device.
#include "tools/cuda_sim/runtime/schedule/scheduler.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using namespace tessera::cuda_sim;

namespace {

struct World {
  OperationLog log;
  Findings findings;
  std::mutex mutex;
  Scheduler::Lock lock{mutex};
  Scheduler scheduler;
  uint32_t a = log.new_chain("stream 1"), b = log.new_chain("stream 2");
  std::vector<std::string> ran;

  explicit World(RunOrder order, uint64_t seed = 1)
      : scheduler(log, findings,
                  {.order = order,
                   .seed = seed,
                   .patience = std::chrono::milliseconds(2000),
                   .short_patience = std::chrono::milliseconds(50)}) {
    findings.prints = false;
  }
  Operation add(uint32_t chain, const std::string& name, std::vector<Operation> after = {}) {
    return scheduler.add(lock, chain,
                         {.name = name,
                          .run =
                              [this, name](Operation) {
                                ran.push_back(name);
                                return true;
                              }},
                         after);
  }
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("an eager scheduler runs an operation when it is issued") {
  World world(RunOrder::eager);
  const Operation first = world.add(world.a, "first");
  CHECK(world.scheduler.is_done(first));
  CHECK(world.ran == Names{"first"});
}

TEST_CASE("a lazy scheduler runs what a wait needs and no more") {
  World world(RunOrder::lazy);
  const Operation a1 = world.add(world.a, "a1");
  const Operation b1 = world.add(world.b, "b1");
  const Operation b2 = world.add(world.b, "b2", {a1});
  const Operation a2 = world.add(world.a, "a2");
  const Operation b3 = world.add(world.b, "b3");
  CHECK(world.ran.empty());
  CHECK(world.scheduler.wait(world.lock, b2));
  CHECK(world.ran == Names{"a1", "b1", "b2"});
  CHECK(!world.scheduler.is_done(a2));
  CHECK(!world.scheduler.is_done(b3));
  CHECK(world.scheduler.wait_for_all(world.lock));
  CHECK(world.ran == Names{"a1", "b1", "b2", "b3", "a2"});
  CHECK(world.scheduler.ended_operations() == 5);
  CHECK(b1 < b2);
}

TEST_CASE("a poll brings an operation one step nearer") {
  for (const RunOrder order : {RunOrder::lazy, RunOrder::random}) {
    World world(order, 3);
    for (int i = 0; i < 3; ++i) world.add(world.a, "step");
    const Operation last = world.add(world.a, "last");
    int polls = 0;
    while (!world.scheduler.poll(world.lock, last)) REQUIRE(++polls < 1000);
    CHECK(world.ran.back() == "last");
    CHECK(world.log.host_has_waited_for(last));
  }
}

TEST_CASE("every random order keeps dependencies, and seeds differ") {
  std::set<Names> orders;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    World world(RunOrder::random, seed);
    world.add(world.a, "a1");
    const Operation a2 = world.add(world.a, "a2");
    world.add(world.b, "b1");
    world.add(world.b, "b2", {a2});
    world.add(world.a, "a3");
    CHECK(world.scheduler.wait_for_all(world.lock));
    const auto position = [&](const char* name) {
      return std::ranges::find(world.ran, name) - world.ran.begin();
    };
    CHECK(world.ran.size() == 5);
    CHECK(position("a1") < position("a2"));
    CHECK(position("a2") < position("a3"));
    CHECK(position("b1") < position("b2"));
    CHECK(position("a2") < position("b2"));
    orders.insert(world.ran);
  }
  CHECK(orders.size() > 3);
}

TEST_CASE("the log orders by chains, dependencies and waits of the host") {
  World world(RunOrder::lazy);
  const Operation a1 = world.add(world.a, "a1"), a2 = world.add(world.a, "a2"), b1 = world.add(world.b, "b1");
  const Operation b2 = world.add(world.b, "b2", {a1});
  CHECK(world.log.is_ordered(a1, a2));
  CHECK(!world.log.is_ordered(a2, a1));
  CHECK(!world.log.is_ordered(a1, b1));
  CHECK(world.log.is_ordered(a1, b2));
  CHECK(!world.log.is_ordered(a2, b2));
  world.scheduler.wait(world.lock, a2);
  const Operation b3 = world.add(world.b, "b3");
  CHECK(world.log.is_ordered(a2, b3));
  CHECK(world.log.describe(b3) == "b3 on stream 2 (operation 5)");
  world.scheduler.wait_for_all(world.lock);
}

TEST_CASE("a chain is used again only when the host has waited for its last operation") {
  World world(RunOrder::eager);
  world.add(world.a, "a1");
  world.log.release_chain(world.a);
  CHECK(world.log.new_chain("stream 3") != world.a);
  const Operation b1 = world.add(world.b, "b1");
  world.scheduler.wait(world.lock, b1);
  world.log.release_chain(world.b);
  CHECK(world.log.new_chain("stream 4") == world.b);
}

TEST_CASE("operations that need one another and stand in the wrong order are a deadlock") {
  World world(RunOrder::lazy);
  // Two ranks, two collectives, issued in different orders.
  std::array<std::array<Operation, 2>, 2> issued{};
  std::array<std::array<bool, 2>, 2> stands{};
  const auto collective = [&](int rank, int index) {
    issued[rank][index] = world.scheduler.add(
        world.lock, rank == 0 ? world.a : world.b,
        {.name = "collective " + std::to_string(index) + " of rank " + std::to_string(rank),
         .run =
             [&, rank, index](Operation) {
               stands[rank][index] = true;
               return stands[1 - rank][index];
             },
         .partners =
             [&, rank, index](Operation) {
               const Operation other = issued[1 - rank][index];
               return other == 0 ? Partners{{}, true} : Partners{{other}, false};
             }});
  };
  SUBCASE("the same order ends") {
    collective(0, 0), collective(0, 1), collective(1, 0), collective(1, 1);
    CHECK(world.scheduler.wait(world.lock, issued[0][1]));
    CHECK(world.findings.count() == 0);
  }
  SUBCASE("another order is reported at once") {
    collective(0, 0), collective(0, 1), collective(1, 1), collective(1, 0);
    CHECK(!world.scheduler.wait(world.lock, issued[0][1]));
    REQUIRE(world.findings.count() == 1);
    const std::string message = world.findings.all()[0].message;
    CHECK(message.find("stream 2: collective 1 of rank 1, then collective 0 of rank 1") != std::string::npos);
  }
  SUBCASE("a partner that never comes is reported when no rank can issue it") {
    collective(0, 0);
    world.scheduler.enter_rank_thread();
    CHECK(!world.scheduler.wait(world.lock, issued[0][0]));
    CHECK(world.findings.all().at(0).check == Check::deadlock);
  }
}

TEST_CASE("a wait goes on when another thread issues what it needs") {
  World world(RunOrder::eager);
  Operation second = 0;
  const Operation first =
      world.scheduler.add(world.lock, world.a,
                          {.name = "first",
                           .run = [&](Operation) { return second != 0; },
                           .partners =
                               [&](Operation) {
                                 return second == 0 ? Partners{{}, true} : Partners{{second}, false};
                               }});
  std::thread other([&] {
    Scheduler::Lock lock(world.mutex);
    second = 1000;
    world.scheduler.announce_change();
  });
  CHECK(world.scheduler.wait(world.lock, first));
  world.lock.unlock();
  other.join();
  CHECK(world.findings.count() == 0);
}

TEST_CASE("a host function runs without the lock and is known as such") {
  for (const RunOrder order : {RunOrder::eager, RunOrder::lazy, RunOrder::random}) {
    World world(order);
    bool inside = false, could_lock = false;
    const Operation function = world.scheduler.add(world.lock, world.a,
                                                   {.name = "host function",
                                                    .run =
                                                        [&](Operation) {
                                                          inside = is_inside_host_function();
                                                          could_lock = world.mutex.try_lock();
                                                          if (could_lock) world.mutex.unlock();
                                                          return true;
                                                        },
                                                    .is_host_function = true});
    CHECK(!inside);
    CHECK(world.scheduler.wait(world.lock, function));
    CHECK(inside);
    CHECK(could_lock);
    CHECK(!is_inside_host_function());
  }
}

TEST_CASE("a long queue is run without recursion") {
  World world(RunOrder::lazy);
  Operation last = 0;
  for (int i = 0; i < 100'000; ++i) last = world.scheduler.add(world.lock, world.a, {.name = "step"});
  CHECK(world.scheduler.wait(world.lock, last));
  CHECK(world.scheduler.ended_operations() == 100'000);
}
