#pragma once

#include <string>
#include <vector>

namespace tessera::tools {

/// A property of the build or the machine.
struct Finding {
  std::string what;
  std::string found;
  /// The consequence of a problem and what to do; "" where there is none.
  std::string advice;
};

struct FindingGroup {
  std::string title;
  std::vector<Finding> findings;
};

/// The components of this build, and the processor, memory and data of this machine. Starts no processes,
/// downloads nothing.
std::vector<FindingGroup> examine();

/// The findings as text, with the advice below.
std::string report(const std::vector<FindingGroup>& groups);

}  // namespace tessera::tools
