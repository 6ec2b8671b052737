#pragma once  // not in tessera.h

#include <cstdint>
#include <ostream>
#include <string>

#include "dist/train/profile/wall_clock.h"
#include "dist/train/trainer/callback.h"
#include "dist/train/trainer/logged_values.h"

namespace tessera::training {

/// Options of ProgressPrinter.
struct ProgressPrinterOptions {
  int64_t every_batches = 2000;          ///< batches of an epoch between lines of loss; 0: none
  bool epoch_lines = false;              ///< whether an epoch ends with a line of its mean loss
  std::string valid_loss = "val_loss";   ///< the logged value of a validation's line; no line where absent
  std::string test_loss = "test_loss";   ///< the same of a test's
  SecondsClock clock = profile_seconds;  ///< of the last line's seconds
};

/// Prints the progress of a run, on rank 0:
///
///     [1/2; 2000] loss: 2.18432                the mean since the line before, over all ranks
///     [1/2; 2500] valid loss: 1.70112          after a validation
///     Epoch: 1, Loss: 1.93041                  with `epoch_lines`
///     Finished training after 61.7 seconds.
///     Final test loss: 1.36288                 after a test
///
/// Epochs and batches count from 1; "?" stands for a number of epochs without a limit.
class ProgressPrinter : public Callback {
 public:
  /// `out` must outlive the callback. Throws ConfigError for negative batches, and without a clock.
  explicit ProgressPrinter(std::ostream& out, ProgressPrinterOptions options = {});

  /// Where losses are taken, and lines printed.
  /// @{
  void on_train_start(Trainer& trainer, Task& task) override;
  void on_train_epoch_start(Trainer& trainer, Task& task) override;
  void on_before_backward(Trainer& trainer, Task& task, const Variable& loss) override;
  void on_train_batch_end(Trainer& trainer, Task& task, const data::Batch& batch, int64_t index) override;
  void on_train_epoch_end(Trainer& trainer, Task& task) override;
  void on_validation_end(Trainer& trainer, Task& task) override;
  void on_train_end(Trainer& trainer, Task& task) override;
  void on_test_end(Trainer& trainer, Task& task) override;
  /// @}

 private:
  double mean(Trainer& trainer, LoggedValues& losses) const;
  void print(const Trainer& trainer, const std::string& line) const;

  std::ostream& out_;
  ProgressPrinterOptions options_;
  double began_ = 0, loss_ = 0;
  int64_t batches_ = 0;  // of the epoch
  LoggedValues interval_, epoch_;
};

}  // namespace tessera::training
