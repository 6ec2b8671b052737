#include "dist/train/ranks/run_together.h"

#include <doctest/doctest.h>

#include <thread>

#include "dist/comm/interface/errors.h"
#include "dist/launch/launch.h"
#include "tensor/error.h"

using namespace tessera;
using std::chrono::milliseconds;

namespace {

/// Runs `body` on two ranks with a timeout of 500 ms.
void on_two_ranks(const std::function<void(dist::World&)>& body) {
  dist::launch([&](dist::World& world) { body(world); }, {.virtual_ranks = 2, .timeout = milliseconds(500)});
}

}  // namespace

TEST_CASE("run_long_together: a body that takes longer than the timeout does not count as lost") {
  on_two_ranks([](dist::World& world) {
    bool done = false;
    training::run_long_together(&world, [&] {
      if (world.rank() == 1) std::this_thread::sleep_for(milliseconds(1500));
      done = true;
    });
    CHECK(done);
  });
}

TEST_CASE("run_long_together: an exception on one rank ends all") {
  const auto fails = [](dist::World& world) {
    training::run_long_together(&world, [&] {
      if (world.rank() == 1) throw ConfigError("no such text");
    });
  };
  CHECK_THROWS_WITH_AS(on_two_ranks(fails), "no such text", ConfigError);
}

TEST_CASE("run_together: each rank throws, the lowest that failed its own exception") {
  std::vector<std::string> seen(3);
  const auto body = [&](dist::World& world) {
    try {
      training::run_together(&world, [&] {
        if (world.rank() > 0) throw ConfigError(text("rank ", world.rank()));
      });
    } catch (const ConfigError& error) {
      seen[static_cast<size_t>(world.rank())] = error.what();
      throw;
    } catch (const dist::CommunicationError&) {
      seen[static_cast<size_t>(world.rank())] = "another rank failed";
      throw;
    }
  };
  CHECK_THROWS_WITH_AS(dist::launch(body, {.virtual_ranks = 3, .timeout = milliseconds(500)}), "rank 1",
                       ConfigError);
  CHECK(seen == std::vector<std::string>{"another rank failed", "rank 1", "another rank failed"});
  CHECK_THROWS_WITH_AS(training::run_together(nullptr, [] { throw ConfigError("alone"); }), "alone",
                       ConfigError);
}
