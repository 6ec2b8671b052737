#include "tests/dist/fsdp/overflow_run.h"

#include "tests/dist/fsdp/on_threads.h"

using namespace tessera;

TEST_CASE(
    "loss scale: all ranks skip the step of an overflow on another rank, and name parameter, rank and step") {
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    test::require_no_problems(ranks,
                              [](dist::World& world) { return test::check_overflow_everywhere(world); });
  }
}
