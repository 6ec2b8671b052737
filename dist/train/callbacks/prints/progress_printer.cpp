#include "dist/train/callbacks/prints/progress_printer.h"

#include <limits>
#include <utility>

#include "dist/train/profile/step_log.h"
#include "dist/train/trainer/trainer.h"
#include "tensor/error.h"

namespace tessera::training {
namespace {

constexpr const char* loss_name = "loss";

int64_t epochs_of(const Trainer& trainer) {
  return trainer.options().fast_dev_run ? 1 : trainer.options().max_epochs;
}

}  // namespace

ProgressPrinter::ProgressPrinter(std::ostream& out, ProgressPrinterOptions options)
    : out_(out), options_(std::move(options)) {
  require<ConfigError>(options_.every_batches >= 0, "ProgressPrinter: every_batches ", options_.every_batches,
                       ": expected 0 or more");
  require<ConfigError>(static_cast<bool>(options_.clock),
                       "ProgressPrinter: clock: expected a function, got none");
}

void ProgressPrinter::on_train_start(Trainer&, Task&) {
  began_ = options_.clock();
}

void ProgressPrinter::on_train_epoch_start(Trainer&, Task&) {
  interval_.clear();
  epoch_.clear();
  batches_ = 0;
}

void ProgressPrinter::on_before_backward(Trainer&, Task&, const Variable& loss) {
  if (options_.every_batches > 0 || options_.epoch_lines) loss_ = loss.value().item();
}

void ProgressPrinter::on_train_batch_end(Trainer& trainer, Task&, const data::Batch& batch, int64_t index) {
  batches_ = index + 1;
  const auto weight = static_cast<double>(batch.unpadded_size());
  const int64_t every = options_.every_batches;
  if (options_.epoch_lines) epoch_.add(loss_name, loss_, weight, {});
  if (every == 0) return;
  interval_.add(loss_name, loss_, weight, {});
  if (batches_ % every != 0) return;
  const double loss = mean(trainer, interval_);
  print(trainer, loss_line(trainer.current_epoch() + 1, epochs_of(trainer), batches_, loss));
}

void ProgressPrinter::on_train_epoch_end(Trainer& trainer, Task&) {
  if (!options_.epoch_lines || batches_ == 0) return;  // a resumed run may end the epoch of its checkpoint
  const double loss = mean(trainer, epoch_);
  print(trainer, epoch_line(trainer.current_epoch() + 1, loss));
}

void ProgressPrinter::on_validation_end(Trainer& trainer, Task&) {
  if (trainer.is_sanity_checking()) return;
  const auto found = trainer.logged().find(options_.valid_loss);
  if (found == trainer.logged().end()) return;
  print(trainer, valid_loss_line(trainer.current_epoch() + 1, epochs_of(trainer), batches_, found->second));
}

void ProgressPrinter::on_train_end(Trainer& trainer, Task&) {
  print(trainer, finished_line(options_.clock() - began_));
}

void ProgressPrinter::on_test_end(Trainer& trainer, Task&) {
  const auto found = trainer.logged().find(options_.test_loss);
  if (found != trainer.logged().end()) print(trainer, test_loss_line(found->second));
}

double ProgressPrinter::mean(Trainer& trainer, LoggedValues& losses) const {
  dist::World* world = trainer.options().world;
  const std::map<std::string, double> values = losses.reduce(world ? &world->communicator() : nullptr);
  losses.clear();
  const auto found = values.find(loss_name);
  return found == values.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

void ProgressPrinter::print(const Trainer& trainer, const std::string& line) const {
  if (trainer.rank() == 0) out_ << line << std::endl;
}

}  // namespace tessera::training
