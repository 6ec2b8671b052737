#pragma once

#include "tools/gptlite/commands.h"

namespace tessera::gptlite {

/// The whole program, from arguments to exit status. Results go to `console`, errors (a line each) to `err`.
int run_command_line(int argc, const char* const* argv, Console console, std::ostream& err);

}  // namespace tessera::gptlite
