// Every strategy against no_shard, bit by bit, and against one device, up to rounding. Ranks are threads.

#include <doctest/doctest.h>

#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/fsdp/parity_matrix.h"

using namespace tessera;

TEST_CASE("parity: every strategy has the bits of no_shard on its mesh, in f32") {
  for (const int ranks : {1, 2, 3, 4})
    test::require_no_problems(ranks, [](dist::World& world) { return test::check_bits(world, {}); });
}

TEST_CASE("parity: every strategy has the bits of no_shard on its mesh, in bf16") {
  for (const int ranks : {1, 2, 3, 4})
    test::require_no_problems(ranks, [](dist::World& world) { return test::check_bits(world, bf16); });
}

TEST_CASE("parity: every strategy follows one device in f64 to 1e-12") {
  for (const int ranks : {1, 2, 3, 4})
    test::require_no_problems(ranks,
                              [](dist::World& world) { return test::check_undistributed(world, f64); });
}

TEST_CASE("parity: every strategy follows one device in f32 and in bf16") {
  for (const int ranks : {1, 2, 3, 4}) {
    test::require_no_problems(ranks,
                              [](dist::World& world) { return test::check_undistributed(world, f32); });
    test::require_no_problems(ranks,
                              [](dist::World& world) { return test::check_undistributed(world, bf16); });
  }
}

TEST_CASE("parity: delays in every hook change no bit, in 240 runs") {
  for (const int ranks : {2, 4})
    test::require_no_problems(ranks, [](dist::World& world) { return test::check_delays(world, 120); });
}
