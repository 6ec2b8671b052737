#include <doctest/doctest.h>

#include "dist/launch/launch.h"
#include "tests/dist/comm/conformance.h"

using namespace tessera;

TEST_CASE("ranks as processes: every collective, dtype, reduction and size") {
  dist::LaunchOptions options;
  options.timeout = std::chrono::seconds(60);
  for (const auto& [name, body] : dist::conformance::cases()) {
    CAPTURE(name);
    dist::launch([&](dist::World& world) { CHECK_NOTHROW(body(world.communicator())); }, options);
  }
}
