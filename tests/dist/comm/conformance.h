#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dist/comm/interface/communicator.h"

/// What every communicator must do, over any transport: one list of cases, run with each.
namespace tessera::dist::conformance {

struct Case {
  const char* name;
  /// Called by every rank; throws a std::runtime_error that names what is wrong.
  std::function<void(Communicator&)> body;
};

/// Cases without errors; each leaves the communicator usable, so that one can serve all of them.
std::vector<Case> cases();

/// Cases in which ranks make different calls: each rank must get a MismatchError that names both sides. The
/// communicator is unusable afterwards. They need 2 ranks or more.
std::vector<Case> mismatches();

/// Throws a std::runtime_error naming the rank unless `condition` holds.
void expect(bool condition, Communicator& communicator, const std::string& what);

}  // namespace tessera::dist::conformance
