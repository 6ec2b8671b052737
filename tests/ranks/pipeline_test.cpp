// The matrix of tests/dist/pipeline/run/pipeline_test.cpp where ranks are processes.

#include <doctest/doctest.h>

#include <algorithm>

#include "dist/launch/launch.h"
#include "tests/dist/pipeline/run/pipeline_matrix.h"

using namespace tessera;

TEST_CASE("ranks as processes: every schedule has losses and gradients of one device") {
  dist::launch(
      [](dist::World& world) {
        const std::vector<std::string> problems = test::check_all_schedules(world);
        CHECK(problems.size() == 0);
        for (size_t i = 0; i < std::min<size_t>(problems.size(), 20); ++i) MESSAGE(problems[i]);
      },
      {.timeout = std::chrono::seconds(60)});
}
