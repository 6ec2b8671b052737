#pragma once  // not in tessera.h

#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "autograd/variable.h"
#include "data/batch.h"
#include "dist/checkpoint/checkpoint_meta.h"
#include "dist/train/trainer/data_module.h"

namespace tessera::optim {
class Optimizer;
}

namespace tessera::training {

class Trainer;
class Task;

/// Code that runs at fixed points of a run, on every rank. A callback that talks to other ranks does so on
/// all of them. The order of the calls of `Trainer::fit`, indented as the loops are:
///
///     setup                                        with the stage, after the data's
///     on_load_checkpoint                           of a resumed run
///     on_fit_start
///     on_sanity_check_start                        with num_sanity_val_steps, of a new run with validation
///       on_validation_start ... on_validation_end  the points of a validation
///     on_sanity_check_end
///     on_train_start
///       on_train_epoch_start
///         on_before_train_batch                    then the batch is taken from its loader
///         on_train_batch_start
///           on_before_backward, on_after_backward
///           on_before_optimizer_step               at the last micro-batch of a step
///           on_before_zero_grad                    after the update, before the gradients are removed
///         on_train_batch_end
///         on_validation_start                      every validate_every steps, or after the epoch's last
///                                                  batch; with validate_at_end after the run's last one too
///           on_validation_epoch_start
///             on_validation_batch_start, on_validation_batch_end
///           on_validation_epoch_end
///         on_validation_end
///       on_train_epoch_end
///     on_train_end
///     on_fit_end
///     teardown                                     after an exception too
///
/// An epoch that a signal ends has no on_train_epoch_end (`TrainerOptions::signals`): the resumed run ends
/// it. In manual optimization the points from on_before_backward to on_before_zero_grad are those of each
/// part that is optimized.
///
/// `validate` and `test` make the calls of a validation and of a test alone, `predict` those of a prediction.
/// At each point callbacks are called in the order in which they are given, those that save the run
/// (`saves_run`) after all others. After an exception `on_exception` is called, and the exception leaves
/// `fit`; what on_exception itself throws goes to `TrainerOptions::log`.
class Callback {
 public:
  virtual ~Callback() = default;

  /// The points above.
  /// @{
  virtual void setup(Trainer&, Task&, Stage) {}
  virtual void teardown(Trainer&, Task&, Stage) {}
  virtual void on_fit_start(Trainer&, Task&) {}
  virtual void on_fit_end(Trainer&, Task&) {}
  virtual void on_sanity_check_start(Trainer&, Task&) {}
  virtual void on_sanity_check_end(Trainer&, Task&) {}
  virtual void on_train_start(Trainer&, Task&) {}
  virtual void on_train_end(Trainer&, Task&) {}
  virtual void on_train_epoch_start(Trainer&, Task&) {}
  virtual void on_train_epoch_end(Trainer&, Task&) {}
  virtual void on_before_train_batch(Trainer&, Task&) {}
  virtual void on_train_batch_start(Trainer&, Task&, const data::Batch&, int64_t) {}
  virtual void on_train_batch_end(Trainer&, Task&, const data::Batch&, int64_t) {}
  virtual void on_before_backward(Trainer&, Task&, const Variable&) {}
  virtual void on_after_backward(Trainer&, Task&) {}
  virtual void on_before_optimizer_step(Trainer&, Task&) {}
  virtual void on_before_zero_grad(Trainer&, Task&, optim::Optimizer&) {}
  virtual void on_validation_start(Trainer&, Task&) {}
  virtual void on_validation_end(Trainer&, Task&) {}
  virtual void on_validation_epoch_start(Trainer&, Task&) {}
  virtual void on_validation_epoch_end(Trainer&, Task&) {}
  virtual void on_validation_batch_start(Trainer&, Task&, const data::Batch&, int64_t) {}
  virtual void on_validation_batch_end(Trainer&, Task&, const data::Batch&, int64_t) {}
  virtual void on_test_start(Trainer&, Task&) {}
  virtual void on_test_end(Trainer&, Task&) {}
  virtual void on_test_epoch_start(Trainer&, Task&) {}
  virtual void on_test_epoch_end(Trainer&, Task&) {}
  virtual void on_test_batch_start(Trainer&, Task&, const data::Batch&, int64_t) {}
  virtual void on_test_batch_end(Trainer&, Task&, const data::Batch&, int64_t) {}
  virtual void on_predict_start(Trainer&, Task&) {}
  virtual void on_predict_end(Trainer&, Task&) {}
  virtual void on_predict_epoch_start(Trainer&, Task&) {}
  virtual void on_predict_epoch_end(Trainer&, Task&) {}
  virtual void on_predict_batch_start(Trainer&, Task&, const data::Batch&, int64_t) {}
  virtual void on_predict_batch_end(Trainer&, Task&, const data::Batch&, int64_t) {}
  /// After a checkpoint was saved, with its folder, and after one was loaded.
  virtual void on_save_checkpoint(Trainer&, Task&, const std::string&) {}
  virtual void on_load_checkpoint(Trainer&, Task&, const std::string&) {}
  virtual void on_exception(Trainer&, Task&, const std::exception&) {}
  /// @}

  /// Whether it saves the run, with the states of all callbacks: then it is called last.
  virtual bool saves_run() const { return false; }

  /// What a checkpoint keeps of this callback, under `state_key`; loaded before on_train_start of a resumed
  /// run.
  /// @{
  virtual std::map<std::string, std::string> state() const { return {}; }
  virtual void load_state(const std::map<std::string, std::string>&) {}
  virtual std::string state_key() const { return ""; }
  /// Tensors of the state, each group under a name of its own: what this rank holds of them. A checkpoint
  /// keeps them; a resumed run fills them in place, before on_fit_start, where its checkpoint has them.
  virtual std::vector<dist::GroupShard> state_tensors(Trainer&, Task&) { return {}; }
  /// @}
};

}  // namespace tessera::training
