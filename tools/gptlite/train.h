#pragma once

#include "tools/gptlite/console.h"
#include "tools/gptlite/options.h"

namespace tessera::gptlite {

/// `gptlite train`, from flags to the last checkpoint. Returns the exit status: that of the signal which
/// ended it early, else 0. Throws what tools::exit_status turns into the others.
int train(const TrainFlags& flags, Console console);

}  // namespace tessera::gptlite
