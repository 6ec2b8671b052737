#pragma once

#include <cstdint>
#include <string>

#include "dist/checkpoint/checkpoint_meta.h"
#include "dist/launch/launch.h"
#include "dist/train/config/arguments.h"
#include "tools/gptlite/config_file.h"
#include "tools/gptlite/options.h"

namespace tessera::gptlite {

/// The options of `train`, each with its origin.
using TrainConfiguration = training::Resolved<TrainOptions>;

/// The command line of `train`, before its options are resolved.
struct TrainCommand {
  training::GivenValues flags = {};  ///< those that were given
  std::string config_file = {};      ///< of --config: a configuration of DeepSpeed; empty: none
  bool explain = false;              ///< print what would run, and stop
  dist::LauncherJob job = {};        ///< what started this process
};

/// The vocabulary size of a preset's model for data with ids below `data_vocabulary`: that number, but for
/// `gpt2` at least its own 50304.
int64_t model_vocabulary(const std::string& preset, int64_t data_vocabulary);

/// A new run: the preset's values, then those of --config, then the flags', then what follows from these.
/// Throws ConfigError for contradictory or out-of-range values.
TrainConfiguration resolve_run(const TrainCommand& command, int64_t data_vocabulary);
/// The same with the model of a checkpoint in `folder` instead of the preset's.
TrainConfiguration resolve_initialized(const TrainCommand& command, const models::GptOptions& model,
                                       const std::string& folder);
/// The run that continues `saved`, with the saved options for flags that were not given. Throws
/// CheckpointError, naming the checkpoint's `folder`, where a flag differs from what the run began with. Only
/// the number of steps, the data's place, the micro-batch size and the dtype may change.
TrainConfiguration resolve_resumed(const TrainCommand& command, const TrainConfiguration& saved,
                                   const std::string& folder);
/// What --config says about a run beside its options.
struct ConfigNotes {
  training::deepspeed::Reports reports;  ///< what the run prints and writes
  std::vector<std::string> lines;        ///< its warnings, and flags that take the place of its values
};
/// Those of a run with these options; nothing without --config. Throws as `read_config_file`.
ConfigNotes notes_of(const TrainCommand& command, const TrainConfiguration& run);
/// The options that no checkpoint changes: device, ranks, files. Throws ConfigError, also for flags that
/// contradict each other.
TrainConfiguration resolve_unsaved(const TrainCommand& command);

/// The field with the number of ranks that trained sequences of their own (`Parallel::data_ranks`) when a
/// checkpoint was written; any other number may resume from it.
inline constexpr const char* world_size_key = "world_size";

/// Reads the options of a checkpoint in `folder`. Throws CheckpointError naming the folder and the field that
/// is missing, mistyped or out of range, also where the checkpoint is not gptlite's.
TrainConfiguration read_run(const dist::TrainingState& state, const std::string& folder);

}  // namespace tessera::gptlite
