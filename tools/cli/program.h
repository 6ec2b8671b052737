#pragma once

#include <iosfwd>

namespace CLI {
class App;
}

namespace tessera::tools {

/// Parses the arguments, runs the callback of the chosen subcommand, and returns the program's exit status.
/// Help goes to `out`; every error becomes one line on `err`, beginning with the program's name, and an
/// unknown flag or subcommand comes with the nearest known one. A callback ends with a status of its own by
/// throwing CLI::RuntimeError(status).
int run_program(CLI::App& app, int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace tessera::tools
