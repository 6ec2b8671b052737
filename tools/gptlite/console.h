#pragma once

#include <iosfwd>

namespace tessera::gptlite {

/// Where a command prints its results. Errors are thrown, not printed.
struct Console {
  std::ostream& out;
  bool is_terminal = false;
};

}  // namespace tessera::gptlite
