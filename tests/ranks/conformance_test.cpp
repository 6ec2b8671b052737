#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "dist/launch/launch.h"
#include "tests/dist/comm/conformance.h"

using namespace tessera;

namespace {

dist::LaunchOptions patient() {
  dist::LaunchOptions options;
  options.timeout = std::chrono::seconds(60);
  return options;
}

}  // namespace

TEST_CASE("ranks as processes: every collective, dtype, reduction and size") {
  for (const dist::conformance::Case& each : dist::conformance::cases()) {
    CAPTURE(std::string(each.name));
    dist::launch([&](dist::World& world) { CHECK_NOTHROW(each.body(world.communicator())); }, patient());
  }
}

TEST_CASE("ranks as processes: a rank that makes another call is an error naming both sides") {
  if (dist::launcher_job().size == 1) return;
  for (const dist::conformance::Case& each : dist::conformance::mismatches()) {
    CAPTURE(std::string(each.name));
    const auto caught = [&](dist::World& world) {
      CHECK_NOTHROW(each.body(world.communicator()));
      throw std::runtime_error("over");  // the communicators are unusable now
    };
    CHECK_THROWS(dist::launch(caught, patient()));
  }
}

TEST_CASE(
    "ranks as processes: the exception of one rank ends the others with its message; a launch after that "
    "works") {
  const int size = dist::launcher_job().size, rank = dist::launcher_job().rank;
  if (size == 1) return;
  const auto failing = [](dist::World& world) {
    if (world.rank() == 1) throw std::out_of_range("rank one cannot go on");
    world.communicator().barrier().wait();
  };
  if (rank == 1)
    CHECK_THROWS_WITH_AS(dist::launch(failing, patient()), "rank one cannot go on", std::out_of_range);
  else
    CHECK_THROWS_WITH_AS(dist::launch(failing, patient()), "rank 1 failed: rank one cannot go on",
                         dist::PeerFailedError);
  const int result = dist::launch(
      [](dist::World& world) {
        const Tensor sum = Tensor::from<int64_t>({world.rank()});
        world.communicator().all_reduce(sum, dist::Reduction::sum).wait();
        return static_cast<int>(sum.item());
      },
      patient());
  CHECK(result == size * (size - 1) / 2);
}
