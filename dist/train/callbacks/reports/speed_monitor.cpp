#include "dist/train/callbacks/reports/speed_monitor.h"

#include <utility>

#include "dist/train/callbacks/total_samples.h"
#include "dist/train/trainer/trainer.h"
#include "tensor/error.h"

namespace tessera::training {

SpeedMonitor::SpeedMonitor(SpeedMonitorOptions options) : options_(std::move(options)) {
  require<ConfigError>(options_.every_steps >= 0, "SpeedMonitor: every_steps ", options_.every_steps,
                       ": expected 0 or more");
  require<ConfigError>(options_.tokens_per_sample >= 0, "SpeedMonitor: tokens_per_sample ",
                       options_.tokens_per_sample, ": expected 0 or more");
  require<ConfigError>(static_cast<bool>(options_.clock),
                       "SpeedMonitor: clock: expected a function, got none");
}

void SpeedMonitor::on_train_epoch_start(Trainer&, Task&) {
  epoch_seconds_ = seconds_ = 0;
  batches_ = samples_ = 0;
  began_ = options_.clock();
}

void SpeedMonitor::on_train_batch_end(Trainer& trainer, Task&, const data::Batch& batch, int64_t) {
  const double now = options_.clock();
  batch_seconds_ = now - std::exchange(began_, now);
  epoch_seconds_ += batch_seconds_;
  seconds_ += batch_seconds_;
  ++batches_;
  samples_ += total_samples(batch, trainer);
  if (is_report_step(trainer, options_.every_steps)) report(trainer);
}

void SpeedMonitor::on_train_epoch_end(Trainer& trainer, Task&) {
  if (options_.every_steps == 0) report(trainer);
}

void SpeedMonitor::on_validation_start(Trainer&, Task&) {
  validation_ = options_.clock();
}

void SpeedMonitor::on_validation_end(Trainer&, Task&) {
  began_ += options_.clock() - validation_;
}

void SpeedMonitor::report(Trainer& trainer) {
  if (batches_ == 0) return;
  const double seconds = std::exchange(seconds_, 0);
  const auto batches = static_cast<double>(std::exchange(batches_, 0)),
             samples = static_cast<double>(std::exchange(samples_, 0));
  const double rate = seconds > 0 ? samples / seconds : 0;
  trainer.report("second_per_batch", seconds / batches);
  trainer.report("samples_per_second", rate);
  if (options_.tokens_per_sample > 0)
    trainer.report("tokens_per_second", rate * static_cast<double>(options_.tokens_per_sample));
}

}  // namespace tessera::training
