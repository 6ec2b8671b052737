#include "dist/train/callbacks/prints/flops_printer.h"

#include <utility>

#include "dist/train/trainer/trainer.h"
#include "tensor/error.h"

namespace tessera::training {

FlopsPrinter::FlopsPrinter(std::ostream& out, FlopsPrinterOptions options)
    : out_(out), options_(std::move(options)) {
  options_.profile.validate();
  require<ConfigError>(options_.machine_flops >= 0, "FlopsPrinter: machine_flops ", options_.machine_flops,
                       ": expected 0 or more");
}

void FlopsPrinter::on_train_start(Trainer& trainer, Task& task) {
  profile_.reset();
  in_step_ = false;
  if (trainer.rank() == 0)
    profiler_ = std::make_unique<FlopsProfiler>(task.module(), options_.profile, options_.machine_flops);
}

void FlopsPrinter::on_train_batch_start(Trainer& trainer, Task&, const data::Batch&, int64_t) {
  if (!profiler_ || in_step_) return;
  profiler_->begin_step(trainer.global_step());
  in_step_ = true;
  samples_ = 0;
}

void FlopsPrinter::on_train_batch_end(Trainer& trainer, Task&, const data::Batch& batch, int64_t) {
  if (!profiler_) return;
  samples_ += batch.unpadded_size();
  if (!trainer.is_at_step_end()) return;
  in_step_ = false;
  profiler_->end_step(samples_);
  if (!profiler_->profile()) return;
  profile_ = profiler_->profile();
  const std::string report = profiler_->report();
  profiler_.reset();
  out_ << report << std::flush;
  trainer.report_text("flops_profile", report);
}

void FlopsPrinter::on_train_end(Trainer&, Task&) {
  profiler_.reset();
}

void FlopsPrinter::on_exception(Trainer&, Task&, const std::exception&) {
  profiler_.reset();
}

}  // namespace tessera::training
