#pragma once

#include "tools/gptlite/console.h"
#include "tools/gptlite/options.h"

/// What gptlite does besides training. Each throws what tools::exit_status turns into the exit status.
namespace tessera::gptlite {

/// Writes text from a checkpoint, each character as it comes.
void run_sample(const SampleFlags& flags, Console console);
/// Prints a checkpoint's validation loss.
void run_eval(const EvalFlags& flags, Console console);
/// Prints what a model is and what a training step of it costs, without allocating it.
void run_info(const InfoFlags& flags, Console console);

}  // namespace tessera::gptlite
