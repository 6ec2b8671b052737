#pragma once

#include "dist/train/config/arguments.h"
#include "tools/gptlite/console.h"
#include "tools/gptlite/options.h"

/// The commands of gptlite besides `train`. Each throws errors of the types that tools::exit_status maps.
namespace tessera::gptlite {

/// Samples text from a checkpoint; prints each character as it is drawn.
void run_sample(const training::GivenValues& flags, Console console);
/// Prints a checkpoint's validation loss.
void run_eval(const training::GivenValues& flags, Console console);
/// Prints a model's layers and size, and the cost of a training step, without allocating it.
void run_info(const training::GivenValues& flags, Console console);

}  // namespace tessera::gptlite
