#pragma once  // not in tessera.h

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dist/checkpoint/background_save.h"
#include "dist/checkpoint/run_lock.h"
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
  int64_t keep_best = 1;     ///< checkpoints with the best values that are kept
  bool save_best = false;    ///< saves after a validation with a better value too
  /// Of a run on ranks: copies what a checkpoint needs, and writes it during the next steps.
  bool in_background = false;
  /// Holds the folder's lock during the fit, and requires that a new run's folder has no checkpoints.
  bool guards_folder = true;
  /// Texts that each checkpoint keeps: of the program, and what the model is built with.
  /// @{
  std::map<std::string, std::string> run = {}, model = {};
  /// @}
};

/// Saves the run, after a signal too (`TrainerOptions::signals`), so that `TrainerOptions::resume` continues
/// it with the same bits, and the last step always. A step that a validation follows is saved after it. The
/// value of a checkpoint is that of its step: where validations log `monitor`, a step without one has none.
class ModelCheckpoint : public Callback {
 public:
  /// Throws ConfigError for an empty folder and negative numbers.
  explicit ModelCheckpoint(ModelCheckpointOptions options);

  /// The points at which it saves. Throw CheckpointError; the first ConfigError for a folder that another run
  /// holds, or where a new run finds checkpoints, before anything is trained.
  /// @{
  void on_fit_start(Trainer& trainer, Task& task) override;
  void on_train_batch_end(Trainer& trainer, Task& task, const data::Batch& batch, int64_t index) override;
  void on_validation_end(Trainer& trainer, Task& task) override;
  void on_train_epoch_end(Trainer& trainer, Task& task) override;
  void on_train_end(Trainer& trainer, Task& task) override;
  void on_fit_end(Trainer& trainer, Task& task) override;
  void on_exception(Trainer& trainer, Task& task, const std::exception& error) override;
  /// @}
  std::map<std::string, std::string> state() const override;
  void load_state(const std::map<std::string, std::string>& state) override;
  std::string state_key() const override;
  bool saves_run() const override { return true; }

  /// The newest checkpoint of this process, and the folder and value of the best one; "" before the first.
  /// @{
  const std::string& last() const { return last_; }
  const std::string& best_checkpoint() const { return best_checkpoint_; }
  double best_value() const { return best_; }
  /// @}
  /// The step of the newest checkpoint, or of the one that the run was resumed from; -1: none.
  int64_t saved_step() const { return saved_step_; }

 private:
  void guard_folder(const Trainer& trainer);
  bool has_value(const Trainer& trainer) const;
  bool lacks_value(const Trainer& trainer) const;
  void save(Trainer& trainer);

  ModelCheckpointOptions options_;
  std::optional<dist::RunLock> lock_;                 // of the folder, on rank 0 during a fit
  std::unique_ptr<dist::BackgroundSave> background_;  // null: a save ends before the next step
  double best_;
  std::string last_, best_checkpoint_;
  int64_t saved_step_ = -1, validated_step_ = -1;  // the newest; -1: none of this fit
  bool lacks_validation_ = false;                  // the checkpoint of saved_step_, because of a signal
  bool is_due_ = false;                            // after a validation, or at the end of the epoch
  bool was_interrupted_ = false;                   // by a signal, at the newest save
};

}  // namespace tessera::training
