#pragma once  // not in tessera.h

#include <cstdint>

#include "dist/train/trainer/callback.h"
#include "tensor/memory/account.h"

namespace tessera::training {

/// Options of MemoryMonitor.
struct MemoryMonitorOptions {
  int64_t every_steps = 1;  ///< steps between reports; 0: at the end of each epoch
  bool categories = true;   ///< whether each category's bytes are reported too
  /// The account to read; null: `current_account()` of the thread that trains.
  intrusive_ptr<MemoryAccount> account = nullptr;
};

/// Reports the bytes that a rank holds, by the account of its allocations; monitors have those of rank 0:
///
///     memory/current      at the end of the step
///     memory/maximum      the most that were held at once since the training began, between steps too
///     memory/average      the mean of `current` over the steps since the report before
///     memory/parameter    at the end of the step, of the category; and of each other one
class MemoryMonitor : public Callback {
 public:
  /// Throws ConfigError for negative steps.
  explicit MemoryMonitor(MemoryMonitorOptions options = {});

  /// Where bytes are read and reported; the account's peaks begin anew with the training.
  /// @{
  void on_train_start(Trainer& trainer, Task& task) override;
  void on_train_batch_end(Trainer& trainer, Task& task, const data::Batch& batch, int64_t index) override;
  void on_train_epoch_end(Trainer& trainer, Task& task) override;
  /// @}
  /// Bytes at the newest report: held then, the most so far, and the mean over the steps before.
  /// @{
  int64_t current() const { return current_; }
  int64_t maximum() const { return maximum_; }
  double average() const { return average_; }
  /// @}

 private:
  void report(Trainer& trainer);

  MemoryMonitorOptions options_;
  intrusive_ptr<MemoryAccount> account_;
  int64_t steps_ = 0;  // since the last report
  double sum_ = 0;     // of their bytes
  int64_t current_ = 0, maximum_ = 0;
  double average_ = 0;
};

}  // namespace tessera::training
