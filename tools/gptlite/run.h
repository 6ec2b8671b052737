#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/text/corpus.h"
#include "dist/checkpoint/checkpoint_meta.h"
#include "models/presets.h"
#include "nn/layers/containers.h"
#include "tensor/device.h"
#include "tools/gptlite/options.h"
#include "tools/gptlite/plan/parallel.h"

namespace tessera::gptlite {

/// A run's configuration: all that its values depend on, the model, the training options, the seed and the
/// text. A checkpoint contains it.
struct Run {
  models::Preset preset;
  int64_t micro_batch_size = 0;  ///< sequences that a rank computes at once
  uint64_t seed = 1337;
  std::string dtype = "fp32";  ///< of computation: "fp32" or "bf16"
  /// What backward computes again. It changes no value, so checkpoints do not contain it.
  nn::ActivationCheckpointing checkpointing = {};
  /// How the run is distributed over ranks.
  Parallel parallel = {};
  std::string dataset = "tiny-shakespeare";
  std::string data;  ///< the dataset's file or folder; empty: where the dataset is searched for
};

/// The number of sequences of a batch that each rank computes. Throws ConfigError unless the batch divides
/// evenly.
int64_t samples_per_rank(const Run& run);

/// The vocabulary size of a preset's model for data with ids below `data_vocabulary`: that number, but for
/// `gpt2` at least its own 50304.
int64_t model_vocabulary(const std::string& preset, int64_t data_vocabulary);

/// A preset changed by flags. Throws ConfigError for contradictory or out-of-range values.
models::Preset resolve_model(const ModelFlags& flags, models::Preset base);
/// A new run.
Run resolve_run(const TrainFlags& flags, int64_t data_vocabulary);
/// The run that continues `saved`, with the saved options for flags that were not given. Throws
/// CheckpointError, naming the checkpoint's `folder`, where a flag differs from what the run began with. Only
/// the data's place, the micro-batch size and the dtype may change.
Run resolve_resumed(const TrainFlags& flags, const Run& saved, const std::string& folder);

/// One option of a run as text: {"n_layer", "4"}.
struct RunField {
  std::string name, value;
};
std::vector<RunField> model_fields(const Run& run);
std::vector<RunField> configuration_fields(const Run& run);

/// The field with the number of ranks that wrote a checkpoint; any other number may resume from it.
inline constexpr const char* world_size_key = "world_size";

/// Reads the options of a checkpoint in `folder`. Throws CheckpointError naming the folder and the field that
/// is missing, mistyped or out of range, also where the checkpoint is not gptlite's.
Run read_run(const dist::TrainingState& state, const std::string& folder);

/// Throws ConfigError for contradictory or out-of-range values.
void check(const Run& run);

/// f32 for "fp32", bf16 for "bf16". Throws ConfigError for another name.
DType compute_dtype(const std::string& name);

/// Sets the number of threads; returns the device. Throws ConfigError or NotBuiltError for a device that this
/// build does not support.
Device apply_device(const DeviceFlags& flags);

/// Opens a corpus; `vocabulary` and `vocabulary_size` as in data::CorpusOptions.
data::Corpus open_data(const std::string& dataset, const std::string& data,
                       std::optional<data::CharacterVocabulary> vocabulary = std::nullopt,
                       int64_t vocabulary_size = 0);

}  // namespace tessera::gptlite
