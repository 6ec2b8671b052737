#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "dist/checkpoint/checkpoint_meta.h"
#include "models/presets.h"
#include "nn/containers.h"
#include "tensor/device.h"
#include "tools/gptlite/options.h"
#include "tools/gptlite/parallel.h"

namespace tessera::gptlite {

/// Everything that decides a run's numbers: the model, the recipe, the seed and the text. A checkpoint keeps
/// it.
struct Run {
  models::Preset recipe;
  int64_t micro_batch_size = 0;  ///< sequences that a rank computes at once
  uint64_t seed = 1337;
  std::string dtype = "fp32";  ///< what is computed in: "fp32" or "bf16"
  /// What backward computes again. Changes no number, so it is no part of a checkpoint.
  nn::ActivationCheckpointing checkpointing = {};
  /// How it is spread over ranks.
  Parallel parallel = {};
  std::string dataset = "tiny-shakespeare";
  std::string data;  ///< its file or folder; empty: wherever the dataset is found
};

/// The sequences of a batch that each rank computes. Throws ConfigError unless all ranks have as many.
int64_t samples_per_rank(const Run& run);

/// The vocabulary of a preset's model for data with ids below `data_vocabulary`: just these, but for `gpt2`
/// no fewer than its own 50304.
int64_t model_vocabulary(const std::string& preset, int64_t data_vocabulary);

/// A preset changed by flags. Throws ConfigError for contradictory or out-of-range values.
models::Preset resolve_model(const ModelFlags& flags, models::Preset base);
/// A new run.
Run resolve_run(const TrainFlags& flags, int64_t data_vocabulary);
/// A run that goes on from `saved`: flags that were not given are the saved ones. Throws CheckpointError,
/// naming `where`, when a flag asks for anything else than what the run began with. Only the place of the
/// data, the size of micro-batches and the dtype may change.
Run resolve_resumed(const TrainFlags& flags, const Run& saved, const std::string& where);

/// One option of a run as text: {"n_layer", "4"}.
struct RunField {
  std::string name, value;
};
std::vector<RunField> model_fields(const Run& run);
std::vector<RunField> recipe_fields(const Run& run);

/// The field that tells how many ranks wrote a checkpoint: any other number may go on with it.
inline constexpr const char* world_size_key = "world_size";

/// Reads the options back. Throws CheckpointError naming `where` and the field that is missing, mistyped or
/// out of range, also when it is not gptlite's.
Run read_run(const dist::TrainingState& state, const std::string& where);

/// Throws ConfigError for contradictory or out-of-range values.
void check(const Run& run);

/// f32 for "fp32", bf16 for "bf16". Throws ConfigError for another name.
DType compute_dtype(const std::string& name);

/// Sets threads; gives the device. Throws ConfigError or NotBuiltError for what this build does not serve.
Device apply_device(const DeviceFlags& flags);

/// Opens a corpus; `vocabulary` and `vocabulary_size` as in data::CorpusOptions.
data::Corpus open_data(const std::string& dataset, const std::string& data,
                       std::optional<data::CharacterVocabulary> vocabulary = std::nullopt,
                       int64_t vocabulary_size = 0);

}  // namespace tessera::gptlite
