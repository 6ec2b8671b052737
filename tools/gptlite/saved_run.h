#pragma once

#include <memory>
#include <optional>
#include <string>

#include "dist/checkpoint/background_save.h"
#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/checkpoint/checkpoint_writer.h"
#include "optim/optimizer.h"
#include "tools/gptlite/plan/parallelize.h"
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
  /// Fills a model and its optimizer, or this rank's shards of them, with the saved values. Where one is
  /// refused, neither changes. Ranks call it together.
  void load(ParallelModel& model, optim::Optimizer& optimizer, const Ranks& ranks) const;
  /// Throws CheckpointError unless the corpus has the vocabulary and the number of training tokens that the
  /// run began with.
  void require_same_data(const data::Corpus& corpus) const;

 private:
  dist::FoundCheckpoint found_;
  dist::CheckpointReader reader_;
  TrainConfiguration options_;
  std::optional<data::CharacterVocabulary> vocabulary_;
};

/// What a checkpoint of this run contains besides tensors.
dist::TrainingState training_state(const TrainConfiguration& options, const data::Corpus& corpus,
                                   int64_t step, std::optional<double> validation_loss);

/// Saves a model and its optimizer as the checkpoint of `state.step` in the run's folder. Ranks call it
/// together, and each writes its shards: at once, or with `background` during the next steps. Throws
/// CheckpointError, also for the background save before this one; older checkpoints stay as they are.
void save_run(const std::string& out, const dist::TrainingState& state, ParallelModel& model,
              optim::Optimizer& optimizer, const Ranks& ranks, const dist::SaveOptions& options,
              dist::BackgroundSave* background = nullptr);

}  // namespace tessera::gptlite
