#pragma once

#include <iosfwd>

namespace CLI {
class App;
}

namespace tessera::tools {

/// Parses the arguments, runs the callback of the chosen subcommand, and returns the program's exit status.
/// Help goes to `out`. Every error is one line on `err` that begins with the program's name; for an unknown
/// flag or subcommand it has the nearest known one. A callback sets another exit status by throwing
/// CLI::RuntimeError(status).
int run_program(CLI::App& app, int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace tessera::tools
