#pragma once

#include <iosfwd>

namespace tessera::gptlite {

/// Where a command prints what it was asked for. Errors are thrown, not printed.
struct Console {
  std::ostream& out;
  bool is_terminal = false;
};

}  // namespace tessera::gptlite
