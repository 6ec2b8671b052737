// Every strategy against no_shard, bit by bit, and against one device, up to rounding. Ranks are threads.

#include <doctest/doctest.h>

#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/fsdp/parity_matrix.h"

using namespace tessera;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;  // ten to forty times slower
#else
constexpr bool is_sanitized = false;
#endif

/// The numbers of ranks: all to four, or an even and an odd one.
std::vector<int> worlds() {
  return is_sanitized ? std::vector<int>{2, 3} : std::vector<int>{1, 2, 3, 4};
}

}  // namespace

TEST_CASE("parity: every strategy has the bits of no_shard on its mesh, in f32") {
  for (const int ranks : worlds())
    test::require_no_problems(ranks, [](dist::World& world) { return test::check_bits(world, {}); });
}

TEST_CASE("parity: every strategy has the bits of no_shard on its mesh, in bf16") {
  for (const int ranks : worlds())
    test::require_no_problems(ranks, [](dist::World& world) { return test::check_bits(world, bf16); });
}

TEST_CASE("parity: every strategy follows one device in f64 to 1e-12") {
  for (const int ranks : worlds())
    test::require_no_problems(ranks,
                              [](dist::World& world) { return test::check_undistributed(world, f64); });
}

TEST_CASE("parity: every strategy follows one device in f32 and in bf16") {
  for (const int ranks : worlds()) {
    test::require_no_problems(ranks,
                              [](dist::World& world) { return test::check_undistributed(world, f32); });
    test::require_no_problems(ranks,
                              [](dist::World& world) { return test::check_undistributed(world, bf16); });
  }
}

TEST_CASE("parity: delays in every hook change no bit") {
  const int rounds = is_sanitized ? 24 : 120;
  for (const int ranks : {2, 4})
    test::require_no_problems(ranks, [&](dist::World& world) { return test::check_delays(world, rounds); });
}
