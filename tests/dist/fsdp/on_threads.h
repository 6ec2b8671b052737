#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "dist/launch/launch.h"

namespace tessera::test {

/// Runs `check(world)`, which returns the problems it found, on ranks that are threads of this process.
/// Returns the problems of all ranks, each with its rank. doctest's own checks are for one thread.
template <class Check>
std::vector<std::string> on_threads(int ranks, const Check& check) {
  std::mutex mutex;
  std::vector<std::string> problems;
  dist::launch(
      [&](dist::World& world) {
        const std::vector<std::string> found = check(world);
        const std::lock_guard lock(mutex);
        for (const std::string& problem : found)
          problems.push_back(text("rank ", world.rank(), " of ", world.size(), ": ", problem));
      },
      {.virtual_ranks = ranks, .timeout = std::chrono::seconds(60)});
  return problems;
}

/// `on_threads` as a check, which fails with the first 20 problems.
template <class Check>
void require_no_problems(int ranks, const Check& check) {
  const std::vector<std::string> problems = on_threads(ranks, check);
  CHECK(problems.size() == 0);
  for (size_t i = 0; i < std::min<size_t>(problems.size(), 20); ++i) MESSAGE(problems[i]);
}

}  // namespace tessera::test
