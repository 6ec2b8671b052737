#include "dist/train/callbacks/prints/step_log_printer.h"

#include <utility>

#include "dist/train/callbacks/total_samples.h"
#include "dist/train/trainer/trainer.h"
#include "tensor/error.h"

namespace tessera::training {

StepLogPrinter::StepLogPrinter(std::ostream& out, StepLogOptions options)
    : out_(out), options_(std::move(options)) {
  require<ConfigError>(options_.steps_per_print >= 1,
                       "StepLogPrinter: steps_per_print: expected 1 or more, got ", options_.steps_per_print);
  require<ConfigError>(static_cast<bool>(options_.clock),
                       "StepLogPrinter: clock: expected a function, got none");
}

void StepLogPrinter::change(std::optional<StepPart> to) {
  if (part_) log_->clock().stop(*part_);
  if (to) log_->clock().start(*to);
  part_ = to;
}

void StepLogPrinter::on_train_start(Trainer&, Task&) {
  StepLogOptions options = options_;
  options.clock = [this] { return options_.clock() - validations_; };
  validations_ = 0;
  samples_ = 0;
  part_.reset();
  metrics_.reset();
  log_.emplace(std::move(options));
  change(StepPart::data);
}

void StepLogPrinter::on_train_batch_start(Trainer&, Task&, const data::Batch&, int64_t) {
  change(StepPart::forward);
}

void StepLogPrinter::on_before_backward(Trainer&, Task&, const Variable&) {
  change(StepPart::backward);
}

void StepLogPrinter::on_after_backward(Trainer&, Task&) {
  change(std::nullopt);
}

void StepLogPrinter::on_before_optimizer_step(Trainer&, Task&) {
  change(StepPart::optimizer);
}

void StepLogPrinter::on_train_batch_end(Trainer& trainer, Task&, const data::Batch& batch, int64_t) {
  change(std::nullopt);
  samples_ += total_samples(batch, trainer);
  if (trainer.is_at_step_end()) {
    const std::optional<std::string> block = log_->end_step(std::exchange(samples_, 0));
    if (block) metrics_ = log_->metrics();
    if (block && trainer.rank() == 0) out_ << *block << std::flush;
  }
  change(StepPart::data);
}

void StepLogPrinter::on_validation_start(Trainer&, Task&) {
  validation_ = options_.clock();
}

void StepLogPrinter::on_validation_end(Trainer&, Task&) {
  validations_ += options_.clock() - validation_;
}

}  // namespace tessera::training
