#include <doctest/doctest.h>

#include <thread>

#include "dist/launch/launch.h"
#include "tensor/error.h"
#include "tools/gptlite/ranks.h"

using namespace tessera;
using std::chrono::milliseconds;

namespace {

/// Two ranks, of which one takes longer than the other waits for a rank that does nothing.
void on_two_ranks(const std::function<void(const gptlite::Ranks&)>& body) {
  dist::launch([&](dist::World& world) { body(gptlite::Ranks(world, true)); },
               {.virtual_ranks = 2, .timeout = milliseconds(500)});
}

}  // namespace

TEST_CASE("gptlite's ranks: one that prepares for long is not called stuck") {
  on_two_ranks([](const gptlite::Ranks& ranks) {
    bool done = false;
    ranks.together_for_long([&] {
      if (ranks.rank() == 1) std::this_thread::sleep_for(milliseconds(1500));
      done = true;
    });
    CHECK(done);
  });
}

TEST_CASE("gptlite's ranks: what fails after a long time fails on all") {
  const auto fails = [](const gptlite::Ranks& ranks) {
    ranks.together_for_long([&] {
      if (ranks.rank() == 1) throw ConfigError("no such text");
    });
  };
  CHECK_THROWS_WITH_AS(on_two_ranks(fails), "no such text", ConfigError);
}
