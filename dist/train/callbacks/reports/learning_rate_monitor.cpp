#include "dist/train/callbacks/reports/learning_rate_monitor.h"

#include <utility>

#include "dist/train/callbacks/total_samples.h"
#include "dist/train/trainer/trainer.h"
#include "tensor/error.h"

namespace tessera::training {

LearningRateMonitor::LearningRateMonitor(LearningRateMonitorOptions options) : options_(std::move(options)) {
  require<ConfigError>(options_.every_steps >= 0, "LearningRateMonitor: every_steps ", options_.every_steps,
                       ": expected 0 or more");
  require<ConfigError>(!options_.name.empty(), "LearningRateMonitor: expected a name, got none");
}

void LearningRateMonitor::on_before_optimizer_step(Trainer& trainer, Task&) {
  rates_ = trainer.engine().get_lr();  // after the step they are those of the next one
}

void LearningRateMonitor::on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) {
  if (is_report_step(trainer, options_.every_steps)) report(trainer);
}

void LearningRateMonitor::on_train_epoch_end(Trainer& trainer, Task&) {
  if (options_.every_steps == 0) report(trainer);
}

void LearningRateMonitor::report(Trainer& trainer) const {
  for (size_t group = 0; group < rates_.size(); ++group)
    trainer.report(rates_.size() == 1 ? options_.name : text(options_.name, "/", group), rates_[group]);
}

}  // namespace tessera::training
