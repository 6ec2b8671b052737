#include "dist/train/callbacks/reports/memory_monitor.h"

#include <utility>

#include "dist/train/callbacks/total_samples.h"
#include "dist/train/trainer/trainer.h"
#include "tensor/error.h"

namespace tessera::training {

MemoryMonitor::MemoryMonitor(MemoryMonitorOptions options) : options_(std::move(options)) {
  require<ConfigError>(options_.every_steps >= 0, "MemoryMonitor: every_steps ", options_.every_steps,
                       ": expected 0 or more");
}

void MemoryMonitor::on_train_start(Trainer&, Task&) {
  account_ = options_.account ? options_.account : current_account();
  account_->reset_peaks();
  steps_ = 0;
  sum_ = 0;
}

void MemoryMonitor::on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) {
  if (!trainer.is_at_step_end()) return;
  ++steps_;
  sum_ += static_cast<double>(account_->total().current);
  if (is_report_step(trainer, options_.every_steps)) report(trainer);
}

void MemoryMonitor::on_train_epoch_end(Trainer& trainer, Task&) {
  if (options_.every_steps == 0) report(trainer);
}

void MemoryMonitor::report(Trainer& trainer) {
  const MemoryCount memory = account_->total();
  current_ = memory.current;
  maximum_ = memory.peak;
  if (steps_ > 0) average_ = std::exchange(sum_, 0) / static_cast<double>(std::exchange(steps_, 0));
  trainer.report("memory/current", static_cast<double>(current_));
  trainer.report("memory/maximum", static_cast<double>(maximum_));
  trainer.report("memory/average", average_);
  for (int i = 0; options_.categories && i < memory_categories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    trainer.report("memory/" + to_string(category), static_cast<double>(account_->count(category).current));
  }
}

}  // namespace tessera::training
