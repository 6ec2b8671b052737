#pragma once

#include <iosfwd>

#include "dist/train/config/arguments.h"
#include "tools/gptlite/resolve.h"

/// The commands of gptlite. Each throws errors of the types that tools::exit_status maps.
namespace tessera::gptlite {

/// Where a command prints its results. Errors are thrown, not printed.
struct Console {
  std::ostream& out;
  bool is_terminal = false;
};

/// `gptlite train`, from flags to the last checkpoint. Returns the exit status: that of the signal that ended
/// it early, else 0.
int train(const TrainCommand& command, Console console);
/// Samples text from a checkpoint; prints each character as it is drawn.
void run_sample(const training::GivenValues& flags, Console console);
/// Prints a checkpoint's validation loss.
void run_eval(const training::GivenValues& flags, Console console);
/// Prints a model's layers and size, and the cost of a training step, without allocating it.
void run_info(const training::GivenValues& flags, Console console);

}  // namespace tessera::gptlite
