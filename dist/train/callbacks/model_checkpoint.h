#pragma once  // not in tessera.h

#include <map>
#include <string>

#include "dist/train/callbacks/monitored.h"
#include "dist/train/trainer/callback.h"

namespace tessera::training {

/// Options of ModelCheckpoint.
struct ModelCheckpointOptions {
  std::string folder;        ///< of the run: one folder in it for each checkpoint
  int64_t every_steps = 0;   ///< steps of the optimizer between checkpoints; 0: at the end of each epoch
  int64_t keep = 3;          ///< newest checkpoints kept, besides the best; 0: all
  std::string monitor = {};  ///< the logged value that says which is the best; "": none is
  Best best = Best::lowest;  ///< what a better value is
};

/// Saves the run, after a signal too (`TrainerOptions::signals`), so that `TrainerOptions::resume` continues
/// it with the same bits, and the last step always.
class ModelCheckpoint : public Callback {
 public:
  /// Throws ConfigError for an empty folder and negative numbers.
  explicit ModelCheckpoint(ModelCheckpointOptions options);

  /// The points at which it saves. Throw CheckpointError.
  /// @{
  void on_train_batch_end(Trainer& trainer, Task& task, const data::Batch& batch, int64_t index) override;
  void on_train_epoch_end(Trainer& trainer, Task& task) override;
  void on_train_end(Trainer& trainer, Task& task) override;
  /// @}
  std::map<std::string, std::string> state() const override;
  void load_state(const std::map<std::string, std::string>& state) override;
  std::string state_key() const override { return "model_checkpoint"; }

  /// The newest checkpoint of this process, and the folder and value of the best one; "" before the first.
  /// @{
  const std::string& last() const { return last_; }
  const std::string& best_checkpoint() const { return best_checkpoint_; }
  double best_value() const { return best_; }
  /// @}

 private:
  void save(Trainer& trainer);

  ModelCheckpointOptions options_;
  double best_;
  std::string last_, best_checkpoint_;
  int64_t saved_step_ = -1;
  bool is_due_ = false;           // at the end of the epoch
  bool was_interrupted_ = false;  // by a signal, at the newest save
};

}  // namespace tessera::training
