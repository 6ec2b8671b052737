#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dist/comm/interface/communicator.h"

/// What every communicator must do, whatever carries its bytes: one list of cases, run against each.
namespace tessera::dist::conformance {

struct Case {
  const char* name;
  /// Called by every rank; throws a std::runtime_error that says what is wrong.
  std::function<void(Communicator&)> body;
};

/// Cases in which all goes well; each leaves the communicator as it was, so that one can serve all of them.
std::vector<Case> cases();

/// Cases whose ranks call different things: each rank must get a MismatchError that names both sides. The
/// communicator is good for nothing afterwards. They need 2 ranks or more.
std::vector<Case> mismatches();

/// Throws a std::runtime_error naming the rank unless `condition` holds.
void expect(bool condition, Communicator& communicator, const std::string& what);

}  // namespace tessera::dist::conformance
