#pragma once

#include <string>
#include <vector>

namespace tessera::tools {

/// One thing that was looked for.
struct Finding {
  std::string what;
  std::string found;
  /// What is lost by it and what to do; "" where all is well.
  std::string advice;
};

struct FindingGroup {
  std::string title;
  std::vector<Finding> findings;
};

/// What this build was made with, and what it finds on this machine: processor, memory, data. Starts nothing,
/// downloads nothing.
std::vector<FindingGroup> examine();

/// The findings as text, with the advice below.
std::string report(const std::vector<FindingGroup>& groups);

}  // namespace tessera::tools
