#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "dist/launch/launch.h"

namespace tessera::test {

/// The error of each rank's `body` on ranks that are threads; empty for a rank without one.
inline std::vector<std::string> errors_of(int ranks, const std::function<void(dist::World&)>& body) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  try {
    dist::launch(
        [&](dist::World& world) {
          try {
            body(world);
          } catch (const std::exception& error) {
            errors[static_cast<size_t>(world.rank())] = error.what();
            throw;
          }
        },
        {.virtual_ranks = ranks, .timeout = std::chrono::seconds(10)});
  } catch (const std::exception&) {
    // the first of those above
  }
  return errors;
}

}  // namespace tessera::test
