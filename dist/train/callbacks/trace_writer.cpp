#include "dist/train/callbacks/trace_writer.h"

#include <limits>
#include <ostream>
#include <utility>

#include "dist/launch/launch.h"
#include "dist/train/ranks/root_process.h"
#include "dist/train/trainer/trainer.h"
#include "tensor/error.h"

namespace tessera::training {

TraceWriter::TraceWriter(TraceWriterOptions options) : options_(std::move(options)) {
  require<ConfigError>(!options_.path.empty(), "TraceWriter: expected a path, got an empty one");
}

void TraceWriter::on_fit_start(Trainer& trainer, Task&) {
  const int64_t done = trainer.global_step(), last = trainer.engine().config().max_steps;
  const int64_t steps = last >= 0 ? last : std::numeric_limits<int64_t>::max() / 2;
  const StepRange range = parse_step_range(options_.steps, done, steps, "TraceWriter: steps");
  // Rank 0 records for all ranks that are threads of its process.
  const bool is_recorded = trainer.rank() == 0 || !dist::launcher_job().launcher.empty();
  trace_.emplace(is_recorded ? file_of_rank(options_.path, trainer.rank()) : "", range);
}

void TraceWriter::on_before_train_batch(Trainer& trainer, Task&) {
  if (step_) return;  // a later micro-batch of the step
  trace_->before_step(trainer.global_step() + 1);
  step_.emplace(SpanKind::step, "step", trainer.global_step() + 1);
}

void TraceWriter::on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) {
  if (!trainer.is_at_step_end()) return;
  step_.reset();
  trace_->after_step(trainer.global_step());
}

void TraceWriter::on_fit_end(Trainer& trainer, Task&) {
  step_.reset();
  std::ostream nowhere(nullptr);
  trace_->finish(options_.table && trainer.rank() == 0 ? *options_.table : nowhere);
  if (trainer.rank() == 0 && !options_.table && !trace_->has_recorded())
    trainer.options().log.warning("train.trace", trace_->describe_missing());
}

void TraceWriter::on_exception(Trainer&, Task&, const std::exception&) {
  step_.reset();
  trace_.reset();
}

}  // namespace tessera::training
