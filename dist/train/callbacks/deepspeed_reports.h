#pragma once  // not in tessera.h

#include <iosfwd>
#include <string>

#include "dist/train/trainer/trainer.h"

namespace tessera::training {

/// Adds what the configuration of a DeepSpeedStrategy asks for: a StepLogPrinter for `steps_per_print` and
/// `wall_clock_breakdown`, a FlopsPrinter for `flops_profiler`, monitors for `tensorboard` and `csv_monitor`.
/// An object of the same class that is there already takes the place of the keys. `out` must outlive the
/// Trainer. Makes the folder of the table. Nothing for other strategies. Throws ConfigError as
/// `deepspeed::reports_of`, and for options of the profiler out of range; NotBuiltError as
/// TensorBoardMonitor.
/// @{
void add_deepspeed_reports(TrainerOptions& options, std::ostream& out);
/// The same of a configuration that the program has read itself (`deepspeed::Configuration::reports`).
void add_deepspeed_reports(TrainerOptions& options, const deepspeed::Reports& reports, std::ostream& out);
/// @}

/// The keys of the configuration for which `add_deepspeed_reports` would add something, with commas between;
/// "": none. Throws as `deepspeed::reports_of`.
std::string missing_deepspeed_reports(const TrainerOptions& options);

}  // namespace tessera::training
