#pragma once

#include <functional>
#include <vector>

#include "dist/launch/launch.h"

/// Runs `body` once per rank, each in a thread of its own, and returns their results. Throws the first
/// exception.
template <class Result>
std::vector<Result> on_ranks(int ranks, const std::function<Result(tessera::dist::World&)>& body) {
  std::vector<Result> results(static_cast<size_t>(ranks));
  tessera::dist::launch(
      [&](tessera::dist::World& world) { results[static_cast<size_t>(world.rank())] = body(world); },
      {.virtual_ranks = ranks, .timeout = std::chrono::seconds(60)});
  return results;
}
