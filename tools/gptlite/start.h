#pragma once

#include <memory>
#include <string>

#include "data/corpus.h"
#include "tools/gptlite/saved_run.h"

namespace tessera::gptlite {

/// What a training run begins from, all flags and data having been accepted.
struct Start {
  Run run;
  data::Corpus corpus;
  std::string out;                  ///< folder of its checkpoints
  std::unique_ptr<SavedRun> saved;  ///< where it goes on from; null for a new run

  int64_t first_step() const { return saved ? saved->step() : 0; }
};

/// Refuses what can be refused before anything is opened. Throws ConfigError.
void check_flags(const TrainFlags& flags);

/// Throws ConfigError where a new run's folder already has checkpoints, which it would replace.
void require_new_folder(const std::string& out);

/// Brings flags, the checkpoint of `--resume` and the data together. Flags are checked before any data is
/// touched. Throws ConfigError, DataError and CheckpointError; also ConfigError for a new run in a folder
/// that already has checkpoints, which it would replace.
Start make_start(const TrainFlags& flags);

}  // namespace tessera::gptlite
