// The matrix of tests/dist/fsdp/parity_test.cpp where ranks are processes.

#include <doctest/doctest.h>

#include <algorithm>

#include "dist/launch/launch.h"
#include "tests/dist/fsdp/parity_matrix.h"

using namespace tessera;

namespace {

template <class Check>
void require_none(const Check& check) {
  dist::launch(
      [&](dist::World& world) {
        const std::vector<std::string> problems = check(world);
        CHECK(problems.size() == 0);
        for (size_t i = 0; i < std::min<size_t>(problems.size(), 20); ++i) MESSAGE(problems[i]);
      },
      {.timeout = std::chrono::seconds(60)});
}

}  // namespace

TEST_CASE("ranks as processes: every strategy has the bits of no_shard on its mesh, in f32 and in bf16") {
  require_none([](dist::World& world) { return test::check_bits(world, {}); });
  require_none([](dist::World& world) { return test::check_bits(world, bf16); });
}

TEST_CASE("ranks as processes: every strategy agrees with one device, in f64, f32 and bf16") {
  for (const DType dtype : {f64, f32, bf16})
    require_none([dtype](dist::World& world) { return test::check_undistributed(world, dtype); });
}

TEST_CASE("ranks as processes: delays at every hook do not change results") {
  require_none([](dist::World& world) { return test::check_delays(world, 36); });
}
