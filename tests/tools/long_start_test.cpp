#include <doctest/doctest.h>

#include <thread>

#include "dist/launch/launch.h"
#include "tensor/error.h"
#include "tools/gptlite/ranks.h"

using namespace tessera;
using std::chrono::milliseconds;

namespace {

/// Runs `body` on two ranks with a timeout of 500 ms.
void on_two_ranks(const std::function<void(const gptlite::Ranks&)>& body) {
  dist::launch([&](dist::World& world) { body(gptlite::Ranks(world, true)); },
               {.virtual_ranks = 2, .timeout = milliseconds(500)});
}

}  // namespace

TEST_CASE("run_long_together: a body that takes longer than the timeout does not count as lost") {
  on_two_ranks([](const gptlite::Ranks& ranks) {
    bool done = false;
    ranks.run_long_together([&] {
      if (ranks.rank() == 1) std::this_thread::sleep_for(milliseconds(1500));
      done = true;
    });
    CHECK(done);
  });
}

TEST_CASE("run_long_together: an exception on one rank ends all") {
  const auto fails = [](const gptlite::Ranks& ranks) {
    ranks.run_long_together([&] {
      if (ranks.rank() == 1) throw ConfigError("no such text");
    });
  };
  CHECK_THROWS_WITH_AS(on_two_ranks(fails), "no such text", ConfigError);
}
