#pragma once

#include <memory>
#include <optional>
#include <string>

#include "dist/checkpoint/background_save.h"
#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/checkpoint/checkpoint_writer.h"
#include "optim/optimizer.h"
#include "tools/gptlite/parallelize.h"

namespace tessera::gptlite {

/// A checkpoint of gptlite's: enough to build its model again, to sample, to evaluate and to go on.
class SavedRun {
 public:
  /// `path` is a checkpoint's folder, or a run's (its latest). Throws CheckpointError.
  explicit SavedRun(const std::string& path);

  /// The checkpoint's folder, for messages.
  const std::string& where() const { return reader_.folder(); }
  /// "", or what the path named that is not there, and what was taken instead.
  const std::string& note() const { return found_.note; }
  int64_t step() const { return reader_.state().step; }
  /// Of its step, where there was an evaluation.
  std::optional<double> validation_loss() const { return reader_.state().validation_loss; }
  const Run& run() const { return run_; }
  /// What the ids stand for; empty where the data was ids.
  const std::optional<data::CharacterVocabulary>& vocabulary() const { return vocabulary_; }

  /// Its model on a device, with the saved numbers in `dtype` ("fp32", "bf16"; empty: the run's own).
  std::unique_ptr<models::Gpt> model(Device device, const std::optional<std::string>& dtype) const;
  /// Fills a model and its optimizer, or this rank's parts of them, with the saved numbers; neither is
  /// touched when one is refused. Ranks call it together.
  void load(ParallelModel& model, optim::Optimizer& optimizer, const Ranks& ranks) const;
  /// Throws CheckpointError unless the corpus has the vocabulary and the number of training tokens that the
  /// run began with.
  void require_same_data(const data::Corpus& corpus) const;

 private:
  dist::FoundCheckpoint found_;
  dist::CheckpointReader reader_;
  Run run_;
  std::optional<data::CharacterVocabulary> vocabulary_;
};

/// What a checkpoint of this run keeps beside the tensors.
dist::TrainingState training_state(const Run& run, const data::Corpus& corpus, int64_t step,
                                   std::optional<double> validation_loss);

/// Saves a model and its optimizer as the checkpoint of `state.step` in the run's folder; ranks call it
/// together, and each writes its parts: at once, or `behind` the next steps where that is given. Throws
/// CheckpointError, leaving what was there untouched; also for the save behind that came before.
void save_run(const std::string& out, const dist::TrainingState& state, ParallelModel& model,
              optim::Optimizer& optimizer, const Ranks& ranks, const dist::SaveOptions& options,
              dist::BackgroundSave* behind = nullptr);

}  // namespace tessera::gptlite
