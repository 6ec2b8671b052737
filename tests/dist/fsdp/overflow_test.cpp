#include "tests/dist/fsdp/overflow_run.h"

#include "tests/dist/fsdp/on_threads.h"

using namespace tessera;

TEST_CASE(
    "loss scale: an overflow on another rank is skipped by all ranks, and all name parameter, rank and "
    "step") {
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    test::require_none(ranks, [](dist::World& world) { return test::check_overflow_everywhere(world); });
  }
}
