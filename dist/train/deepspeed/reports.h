#pragma once  // not in tessera.h

#include <optional>
#include <string>

#include "dist/train/config/json_document.h"
#include "dist/train/profile/flops_profiler.h"
#include "dist/train/profile/step_log.h"

namespace tessera::training::deepspeed {

/// What a configuration asks a run to print and to write. Engine and Trainer do none of it by themselves:
/// `add_deepspeed_reports` makes callbacks and monitors of it.
struct Reports {
  /// Of `steps_per_print` and `wall_clock_breakdown`; nothing without both, and for 0 steps. Without
  /// steps_per_print a true wall_clock_breakdown means 10 steps.
  std::optional<StepLogOptions> step_log = {};
  /// Of the block `flops_profiler`; nothing where it is not enabled.
  std::optional<FlopsProfilerOptions> flops_profiler = {};
  std::string tensorboard = {};  ///< folder OUTPUT_PATH/JOB_NAME; "": the block is not enabled
  std::string csv_monitor = {};  ///< file OUTPUT_PATH/JOB_NAME/metrics.csv; "": the block is not enabled
};

/// Reads the keys. Without an output_path files are in the working directory. Throws ConfigError, with the
/// file and the line, for a value of another kind or out of range.
Reports reports_of(const JsonDocument& document);

}  // namespace tessera::training::deepspeed
