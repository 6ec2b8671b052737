// The overflow of tests/dist/fsdp/overflow_test.cpp where ranks are processes.

#include <doctest/doctest.h>

#include "dist/launch/launch.h"
#include "tests/dist/fsdp/overflow_run.h"

using namespace tessera;

TEST_CASE("ranks as processes: all ranks skip a step with an overflow on one rank, with the same message") {
  dist::launch(
      [](dist::World& world) {
        const std::vector<std::string> problems = test::check_overflow_everywhere(world);
        CHECK(problems.size() == 0);
        for (const std::string& problem : problems) MESSAGE(problem);
      },
      {.timeout = std::chrono::seconds(60)});
}
