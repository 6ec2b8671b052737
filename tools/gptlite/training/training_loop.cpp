#include "tools/gptlite/training/training_loop.h"

#include <cmath>
#include <ostream>

#include "tensor/error.h"
#include "tensor/number_text.h"
#include "tensor/profile/machine_rates.h"
#include "tensor/profile/span.h"
#include "tensor/threads/parallel.h"
#include "tools/gptlite/parity_export.h"
#include "tools/gptlite/training/evaluation.h"

namespace tessera::gptlite {
namespace {

/// The trace of this rank; empty where another rank records for it.
std::string trace_file(const Start& start, const Ranks& ranks) {
  if (ranks.shares_process() && !ranks.is_first()) return {};
  return file_of_rank(start.options->profile, ranks.rank());
}

training::StepRange traced_steps(const Start& start) {
  const TrainOptions& options = *start.options;
  require<ConfigError>(!options.profile.empty() || options.profile_steps.empty(),
                       "--profile-steps needs `--profile FILE` to write the trace to");
  if (options.profile.empty()) return {};
  return training::parse_step_range(options.profile_steps, start.first_step(), start.run().preset.steps,
                                    "--profile-steps");
}

}  // namespace

RankFiles::RankFiles(const Start& start, const Ranks& ranks)
    : metrics(file_of_rank(start.options->metrics, ranks.rank()), ranks.rank(), ranks.size()),
      trace(trace_file(start, ranks), traced_steps(start)) {}

TrainingLoop::TrainingLoop(const Start& start, Ranks ranks, RankFiles& files, Device device, Console console)
    : start_(start),
      ranks_(ranks),
      files_(files),
      console_(console),
      gpt_(preset().model),
      engine_(make_engine(gpt_, start_.run(), device, ranks_.world())),
      batches_(make_batches(start_.corpus, start_.run(), ranks_.rank())),
      progress_(console.out, console.is_terminal, start_.first_step(), preset().steps),
      done_(start_.first_step()) {
  if (start_.saved) {
    engine_->load_checkpoint(start_.saved->folder());
    best_loss_ = start_.saved->validation_loss();
    saved_ = done_;
  }
  if (options().async_save)
    background_save_ = std::make_unique<dist::BackgroundSave>(ranks_.world()->shared_communicator());
}

void TrainingLoop::print_header() {
  const models::GptOptions& m = preset().model;
  const data::Corpus& corpus = start_.corpus;
  console_.out << preset().name << ": " << with_commas(models::parameter_count(m)) << " parameters ("
               << m.layers << " layers, " << m.heads << " heads, " << m.width << " wide, block "
               << m.block_size << "), " << to_string(gpt_.wte.weight.device()) << ", " << start_.run().dtype
               << ", " << num_threads() << (num_threads() == 1 ? " thread" : " threads");
  if (start_.run().parallel.is_sharded)
    console_.out << " on each of " << ranks_.size() << (ranks_.size() == 1 ? " rank, " : " ranks, ")
                 << name_of(start_.run().parallel.strategy)
                 << (ranks_.size() > 1 ? ", by " + ranks_.world()->transport() : "");
  console_.out << "\n"
               << corpus.dataset << " (" << corpus.source << "): " << with_commas(corpus.train.size())
               << " tokens to train on, " << with_commas(corpus.validation.size())
               << " to validate, vocabulary " << corpus.vocabulary_size << "\n";
  if (corpus.entropy)
    console_.out << "its entropy, which no loss stays under: " << *corpus.entropy << " nats\n";
  if (start_.saved && !start_.saved->note().empty()) console_.out << start_.saved->note() << "\n";
  if (start_.saved) console_.out << "resuming from " << start_.saved->folder() << "\n";
  console_.out << std::flush;
}

/// Exchanges over ranks after a step: the losses, whose mean is the batch's, and the received signals, so
/// that all ranks stop at the same step.
void TrainingLoop::exchange_step(double& loss) {
  const std::vector<double> all = ranks_.gather({loss, static_cast<double>(received_signal())});
  loss = 0;
  for (size_t i = 0; i < all.size(); i += 2) {
    loss += all[i] / ranks_.size();
    signal_ = std::max(signal_, static_cast<int>(all[i + 1]));
  }
  require<NonFiniteError>(std::isfinite(loss), "step ", done_ + 1, ": the loss is ", loss);
}

void TrainingLoop::step(data::Loader& loader) {
  files_.trace.before_step(done_ + 1);
  std::optional<SpanScope> span(std::in_place, SpanKind::step, "step", done_ + 1);
  const double began = seconds_now();
  const std::optional<data::Batch> batch = loader.next();
  const double rate = engine_->get_lr().front();
  double loss = train_step(*engine_, gpt_, *batch);
  exchange_step(loss);
  ++done_;
  const double seconds = seconds_now() - began;
  span.reset();
  files_.trace.after_step(done_);

  const double tokens = static_cast<double>(batch->x.numel() * ranks_.size());
  const dist::TrafficCount sent = ranks_.traffic();
  last_ = {
      .step = done_,
      .loss = loss,
      .validation_loss = std::nullopt,
      .learning_rate = rate,
      .gradient_norm = engine_->global_grad_norm(),
      .step_ms = 1e3 * seconds,
      .tokens_per_second = tokens / seconds,
      .flops_per_second = tokens / seconds * static_cast<double>(models::flops_per_token(preset().model)),
      .mfu = std::nullopt,
      .sent = {.calls = sent.calls - sent_.calls, .bytes = sent.bytes - sent_.bytes}};
  sent_ = sent;
  if (product_rate_) last_.mfu = last_.flops_per_second / *product_rate_;
  throughput_.step(tokens, seconds, is_last());
  progress_.step(done_, loss, rate, throughput_.smoothed());
}

void TrainingLoop::evaluate_if_due() {
  if (!is_due(options().eval_interval)) return;
  const auto stop = [this] {
    signal_ = static_cast<int>(ranks_.largest(received_signal()));
    return signal_ != 0;
  };
  last_.validation_loss = evaluate(gpt_, start_.corpus.validation,
                                   {.batch_size = start_.run().micro_batch_size,
                                    .batches = options().eval_steps,
                                    .seed = start_.run().seed,
                                    .stop = stop,
                                    .ranks = ranks_});
  if (!last_.validation_loss) return;
  newest_loss_ = last_.validation_loss;
  require<NonFiniteError>(std::isfinite(*newest_loss_), "step ", done_, ": the validation loss is ",
                          *newest_loss_);
  progress_.line(text("step ", done_, ": validation loss ", *newest_loss_));
}

void TrainingLoop::save_if_due() {
  const bool is_best = last_.validation_loss && (!best_loss_ || *last_.validation_loss < *best_loss_);
  if (is_best) best_loss_ = last_.validation_loss;
  if (is_last() || is_due(options().checkpoint_interval) || (is_best && options().checkpoint_interval > 0))
    save();
}

void TrainingLoop::save() {
  if (saved_ == done_) return;
  training::SaveExtras extras = saved_extras(start_.options, start_.corpus);
  extras.validation_loss = last_.validation_loss;
  extras.keep = options().keep;
  extras.background = background_save_.get();
  engine_->save_checkpoint(start_.out, extras);
  saved_ = done_;
  has_saved_ = true;
}

int TrainingLoop::finish() {
  files_.trace.stop();
  progress_.finish();
  const PeakMemory measured = peak_of(*current_account()), planned = plan_memory(start_.run()).peak;
  files_.metrics.end({.step = done_,
                      .validation_loss = newest_loss_,
                      .tokens_per_second = throughput_.mean(),
                      .seconds = throughput_.seconds(),
                      .measured = measured,
                      .planned = planned});
  if (!is_last()) console_.out << name_of_signal(signal_) << ": stopped after step " << done_ << "\n";
  if (is_last() && newest_loss_) {
    console_.out << "validation loss " << *newest_loss_;
    if (start_.corpus.entropy)
      console_.out << ", " << *newest_loss_ - *start_.corpus.entropy << " above the entropy";
    console_.out << "\n";
  }
  if (throughput_.mean() > 0)
    console_.out << with_commas(static_cast<int64_t>(throughput_.mean())) << " tokens a second\n";
  console_.out << (ranks_.size() > 1 ? "this rank's memory at its peak\n" : "memory at its peak\n")
               << "                        planned          measured\n"
               << describe(planned, &measured) << "  resident, libraries included          "
               << with_prefix(static_cast<double>(peak_resident_bytes()), "B") << "\n";
  files_.trace.finish(console_.out);
  if (has_saved_)
    console_.out << "saved " << start_.out << "/" << dist::step_name(saved_) << std::endl;
  else
    console_.out << "nothing was left to do, and nothing was saved: " << start_.saved->folder()
                 << " is the run's end" << std::endl;
  return is_last() ? 0 : exit_status_of(signal_);
}

int TrainingLoop::run() {
  print_header();
  const Device device = gpt_.wte.weight.device();
  if (!options().metrics.empty())
    product_rate_ = ranks_.sum(measured_product_rate(compute_dtype(start_.run().dtype)));
  files_.metrics.start(start_.options, start_.corpus, device, done_, product_rate_);
  if (!options().parity_export.empty())
    export_for_parity(options().parity_export, gpt_, *batches_, preset().steps);
  data::Loader loader(
      batches_, {.first_step = done_, .last_step = preset().steps, .workers = 0, .seed = start_.run().seed});
  sent_ = ranks_.traffic();
  while (!is_last() && signal_ == 0) {
    step(loader);
    evaluate_if_due();
    files_.metrics.step(last_);
    save_if_due();
  }
  save();
  if (background_save_) background_save_->wait();
  return finish();
}

}  // namespace tessera::gptlite
