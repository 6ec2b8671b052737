#pragma once

#include <memory>
#include <optional>
#include <string>

#include "data/text/corpus.h"
#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/train/engine/engine_core.h"
#include "models/gpt.h"
#include "tools/gptlite/resolve.h"

namespace tessera::gptlite {

/// A checkpoint of gptlite: what its model, sampling, evaluation and a resumed run need.
class SavedRun {
 public:
  /// `path` is a checkpoint's folder, or a run's (its latest). Throws CheckpointError.
  explicit SavedRun(const std::string& path);

  /// The checkpoint's folder.
  const std::string& folder() const { return reader_.folder(); }
  /// "", or what the path names that does not exist, and the checkpoint that was taken instead.
  const std::string& note() const { return found_.note; }
  int64_t step() const { return reader_.state().step; }
  /// At its step; empty without an evaluation there.
  std::optional<double> validation_loss() const { return reader_.state().validation_loss; }
  const TrainConfiguration& options() const { return options_; }
  const Run& run() const { return options_->run; }
  /// The characters of the ids; empty where the data was ids.
  const std::optional<data::CharacterVocabulary>& vocabulary() const { return vocabulary_; }

  /// Its model on a device, with the saved values in `dtype` ("fp32", "bf16"; empty: the run's).
  std::unique_ptr<models::Gpt> model(Device device, const std::optional<std::string>& dtype) const;
  /// Whether the run, or one that it continues, began with the weights and the vocabulary of another one.
  bool is_initialized() const;
  /// Throws CheckpointError unless the corpus has the vocabulary and the number of training tokens that the
  /// run began with.
  void require_same_data(const data::Corpus& corpus) const;

 private:
  dist::FoundCheckpoint found_;
  dist::CheckpointReader reader_;
  TrainConfiguration options_;
  std::optional<data::CharacterVocabulary> vocabulary_;
};

/// What a checkpoint of this run contains besides what the engine saves; `is_initialized` as of SavedRun.
training::SaveExtras saved_extras(const TrainConfiguration& options, const data::Corpus& corpus,
                                  bool is_initialized);

}  // namespace tessera::gptlite
