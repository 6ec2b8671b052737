#pragma once

#include "tools/gptlite/console.h"
#include "tools/gptlite/resolve.h"

namespace tessera::gptlite {

/// `gptlite train`, from flags to the last checkpoint. Returns the exit status: that of the signal that ended
/// it early, else 0. Throws errors of the types that tools::exit_status maps.
int train(const TrainCommand& command, Console console);

}  // namespace tessera::gptlite
