#pragma once

#include <memory>
#include <string>

#include "data/text/corpus.h"
#include "tools/gptlite/saved_run.h"

namespace tessera::gptlite {

/// The start of a training run: its options, checkpoint and data.
struct Start {
  TrainConfiguration options{train_fields()};
  data::Corpus corpus;
  std::string out;                  ///< folder of its checkpoints
  std::string init_from;            ///< the checkpoint with the first weights; empty: they are random
  ConfigNotes config;               ///< of --config
  std::unique_ptr<SavedRun> saved;  ///< the checkpoint that is resumed; null for a new run

  const Run& run() const { return options->run; }
  int64_t first_step() const { return saved ? saved->step() : 0; }
};

/// Checks the flags before anything is opened. Throws ConfigError.
void check_flags(const TrainCommand& command);

/// Throws ConfigError where a new run's folder has checkpoints, which the run would replace.
void require_new_folder(const std::string& out);

/// Combines flags, the checkpoint of `--resume` and the data. Flags are checked before any data is opened.
/// Throws ConfigError, DataError and CheckpointError; ConfigError also as `require_new_folder`.
Start make_start(const TrainCommand& command);

}  // namespace tessera::gptlite
