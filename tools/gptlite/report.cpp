#include "tools/gptlite/report.h"

#include <cmath>
#include <csignal>
#include <ostream>

#include "dist/train/profile/wall_clock.h"
#include "tensor/error.h"
#include "tensor/number_text.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/profile/machine_rates.h"
#include "tensor/threads/parallel.h"
#include "tools/gptlite/plan.h"
#include "tools/gptlite/run.h"
#include "tools/gptlite/stages_plan.h"

namespace tessera::gptlite {
namespace {

const char* name_of_signal(int signal) {
  if (signal == SIGINT) return "Ctrl-C";
  return signal == SIGTERM ? "SIGTERM" : "SIGUSR1";
}

double sum_over_ranks(dist::World* world, double own) {
  if (!world) return own;
  Tensor sum = ops::full({1}, own, f64);
  world->communicator().all_reduce(sum, dist::Reduction::sum).wait();
  return sum.data<double>()[0];
}

dist::TrafficCount traffic_of(dist::World* world) {
  return world ? world->communicator().ledger().total() : dist::TrafficCount();
}

}  // namespace

Report::Report(const Start& start, MetricsFile& metrics, Console console)
    : start_(start),
      metrics_(metrics),
      console_(console),
      progress_(console.out, console.is_terminal, start.first_step(), start.run().preset.steps) {
  last_.step = start.first_step();
}

void Report::print_header(const training::Trainer& trainer, Device device) {
  const models::Preset& preset = start_.run().preset;
  const models::GptOptions& m = preset.model;
  const data::Corpus& corpus = start_.corpus;
  dist::World* const world = trainer.options().world;
  console_.out << preset.name << ": " << with_commas(models::parameter_count(m)) << " parameters ("
               << m.layers << " layers, " << m.heads << " heads, " << m.width << " wide, block "
               << m.block_size << "), " << describe_device(device) << ", " << start_.run().dtype << ", "
               << num_threads() << (num_threads() == 1 ? " thread" : " threads");
  if (world)
    console_.out << " on each of " << world->size() << (world->size() == 1 ? " rank, " : " ranks, ")
                 << name_of(start_.run().parallel.strategy)
                 << (world->size() > 1 ? ", by " + world->transport() : "");
  console_.out << "\n"
               << corpus.dataset << " (" << corpus.source << "): " << with_commas(corpus.train.size())
               << " tokens to train on, " << with_commas(corpus.validation.size())
               << " to validate, vocabulary " << corpus.vocabulary_size << "\n";
  if (corpus.entropy)
    console_.out << "its entropy, which no loss stays under: " << *corpus.entropy << " nats\n";
  for (const std::string& line : start_.config.lines) console_.out << line << "\n";
  if (start_.saved && !start_.saved->note().empty()) console_.out << start_.saved->note() << "\n";
  if (!trainer.products_note().empty()) console_.out << trainer.products_note() << "\n";
  if (start_.saved) console_.out << "resuming from " << start_.saved->folder() << "\n";
  if (!start_.init_from.empty()) console_.out << "first weights from " << start_.init_from << "\n";
  if (!trainer.resume_note().empty())
    console_.out << trainer.resume_note() << "\n";
  else if (start_.saved && start_.saved->run().preset.steps != preset.steps)  // saved without the Trainer
    console_.out << "steps was " << start_.saved->run().preset.steps << " and is " << preset.steps
                 << ": the cosine is stretched\n";
  console_.out << std::flush;
}

void Report::on_train_start(training::Trainer& trainer, training::Task&) {
  dist::World* const world = trainer.options().world;
  const Device device = trainer.engine().device();
  print_header(trainer, device);
  has_time_ = !is_simulated(device);
  if (!start_.options->metrics.empty() && device.is_cpu())
    product_rate_ = sum_over_ranks(world, measured_product_rate(compute_dtype(start_.run().dtype)));
  metrics_.start(start_.options, start_.corpus, device, start_.first_step(), product_rate_);
  sent_ = traffic_of(world);
}

void Report::on_before_train_batch(training::Trainer& trainer, training::Task&) {
  if (began_) return;  // a later micro-batch of the step
  began_ = training::profile_seconds();
  learning_rate_ = trainer.engine().get_lr().front();
  loss_scale_ = trainer.engine().loss_scale();
}

void Report::on_train_batch_end(training::Trainer& trainer, training::Task&, const data::Batch&, int64_t) {
  if (!trainer.is_at_step_end()) return;
  const double seconds = training::profile_seconds() - *began_;
  began_.reset();
  const models::Preset& preset = start_.run().preset;
  const double loss = trainer.logged().at("loss");
  const int64_t step = trainer.global_step();
  require<NonFiniteError>(std::isfinite(loss), "step ", step, ": the loss is ", loss);
  const auto tokens = static_cast<double>(preset.batch_size * preset.model.block_size);
  const dist::TrafficCount sent = traffic_of(trainer.options().world);
  last_ = {.step = step,
           .loss = loss,
           .validation_loss = std::nullopt,
           .learning_rate = learning_rate_,
           .gradient_norm = trainer.engine().global_grad_norm(),
           .loss_scale = loss_scale_,
           .step_ms = std::nullopt,
           .tokens_per_second = std::nullopt,
           .flops_per_second = std::nullopt,
           .mfu = std::nullopt,
           .sent = {.calls = sent.calls - sent_.calls, .bytes = sent.bytes - sent_.bytes}};
  if (const dist::Pipeline* pipeline = trainer.engine().pipeline()) last_.stages = pipeline->metrics();
  sent_ = sent;
  if (has_time_) set_rates(seconds, tokens);
  if (!trainer.options().monitors.empty()) {
    trainer.report("learning_rate", learning_rate_);
    trainer.report("gradient_norm", last_.gradient_norm);
    if (last_.tokens_per_second) trainer.report("tokens_per_second", *last_.tokens_per_second);
  }
  throughput_.step(tokens, seconds, is_last());
  progress_.step(step, loss, learning_rate_,
                 has_time_ ? std::optional(throughput_.smoothed()) : std::nullopt);
  is_pending_ = true;
  if (!trainer.validation_follows()) write_step();
}

/// The step's time, and what follows from it.
void Report::set_rates(double seconds, double tokens) {
  last_.step_ms = 1e3 * seconds;
  last_.tokens_per_second = tokens / seconds;
  last_.flops_per_second =
      tokens / seconds * static_cast<double>(models::flops_per_token(start_.run().preset.model));
  if (product_rate_) last_.mfu = *last_.flops_per_second / *product_rate_;
}

void Report::on_validation_end(training::Trainer& trainer, training::Task&) {
  const double loss = trainer.logged().at("val_loss");
  require<NonFiniteError>(std::isfinite(loss), "step ", last_.step, ": the validation loss is ", loss);
  last_.validation_loss = loss;
  progress_.line(text("step ", last_.step, ": validation loss ", loss));
  if (is_pending_)
    write_step();
  else
    metrics_.validation(last_.step, loss);  // of a step that another process took
}

void Report::write_step() {
  if (is_pending_) metrics_.step(last_);
  is_pending_ = false;
}

void Report::on_train_end(training::Trainer&, training::Task&) {
  write_step();
}

void Report::on_fit_end(training::Trainer& trainer, training::Task&) {
  progress_.finish();
  const training::PeakMemory measured = training::peak_of(*current_account());
  const training::PeakMemory planned = start_.run().parallel.pipeline_stages > 0
                                           ? plan_memory_of_stage(start_.run(), trainer.rank())
                                           : plan_memory(start_.run(), trainer.options().world).peak;
  const std::optional<double> loss = last_.validation_loss;
  metrics_.end({.step = last_.step,
                .validation_loss = loss,
                .tokens_per_second = has_time_ ? std::optional(throughput_.mean()) : std::nullopt,
                .seconds = has_time_ ? std::optional(throughput_.seconds()) : std::nullopt,
                .measured = measured,
                .planned = planned,
                .offloaded = trainer.engine().offloaded_bytes_peak()});
  std::ostream& out = console_.out;
  if (!is_last())
    out << name_of_signal(trainer.interrupted()) << ": stopped after step " << last_.step << "\n";
  if (is_last() && loss) {
    out << "validation loss " << *loss;
    if (start_.corpus.entropy) out << ", " << *loss - *start_.corpus.entropy << " above the entropy";
    out << "\n";
  }
  if (!has_time_)
    out << "a simulated card: no time is claimed\n";
  else if (throughput_.mean() > 0)
    out << with_commas(static_cast<int64_t>(throughput_.mean())) << " tokens a second\n";
  out << (trainer.world_size() > 1 ? "this rank's memory at its peak\n" : "memory at its peak\n")
      << "                        planned          measured\n"
      << describe(planned, &measured) << "  resident, libraries included          "
      << with_prefix(static_cast<double>(training::peak_resident_bytes()), "B") << std::endl;
  if (const int64_t elsewhere = trainer.engine().offloaded_bytes_peak(); elsewhere > 0)
    out << "  inputs of checkpoints elsewhere       " << with_prefix(static_cast<double>(elsewhere), "B")
        << std::endl;
}

}  // namespace tessera::gptlite
