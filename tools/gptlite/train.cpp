#include "tools/gptlite/train.h"

#include <cmath>
#include <ostream>

#include "data/loader.h"
#include "dist/state/checkpoint_writer.h"
#include "nn/materialize.h"
#include "tensor/error.h"
#include "tensor/parallel.h"
#include "tensor/profile/machine_rates.h"
#include "tensor/profile/span.h"
#include "tools/gptlite/evaluation.h"
#include "tools/gptlite/interrupt.h"
#include "tools/gptlite/metrics.h"
#include "tools/gptlite/numbers.h"
#include "tools/gptlite/parity_export.h"
#include "tools/gptlite/plan.h"
#include "tools/gptlite/progress.h"
#include "tools/gptlite/start.h"
#include "tools/gptlite/step_profile.h"
#include "tools/gptlite/trainer.h"

namespace tessera::gptlite {
namespace {

/// Steps at the beginning of a process that its mean speed leaves out: caches fill in them.
constexpr int64_t warming_steps = 5;

/// One process's part of a run: from a start to the last step or a signal.
class Training {
 public:
  Training(const TrainFlags& flags, Start start, StepProfile& profile, Device device, Console console);
  int run();

 private:
  void announce();
  void step(data::Loader& loader);
  void evaluate_if_due();
  void save_if_due();
  void save();
  int finish();

  const models::Preset& recipe() const { return start_.run.recipe; }
  bool is_last() const { return done_ == recipe().steps; }
  bool is_due(int64_t interval) const { return interval > 0 && (done_ % interval == 0 || is_last()); }

  const TrainFlags& flags_;
  Start start_;
  StepProfile& profile_;
  Console console_;
  models::Gpt gpt_;
  std::unique_ptr<optim::AdamW> adam_;
  optim::Schedule schedule_;
  std::shared_ptr<const data::BatchSource> batches_;
  MetricsFile metrics_;
  Progress progress_;
  InterruptWatch interrupt_;

  int64_t done_;                  // steps
  int64_t saved_ = -1;            // the step of the newest checkpoint
  StepMetrics last_;              // the newest step; its validation loss is there when it was evaluated
  std::optional<double> best_;    // the lowest validation loss so far
  std::optional<double> newest_;  // the newest one
  double timed_seconds_ = 0;      // of the steps that count for the mean speed
  int64_t timed_steps_ = 0;
  double smooth_speed_ = 0;             // tokens a second, for the eye
  std::optional<double> product_rate_;  // FLOP/s of matrix products on this machine; measured for the metrics
};

Training::Training(const TrainFlags& flags, Start start, StepProfile& profile, Device device, Console console)
    : flags_(flags),
      start_(std::move(start)),
      profile_(profile),
      console_(console),
      gpt_(recipe().model),
      schedule_(make_schedule(recipe())),
      batches_(make_batches(start_.corpus, start_.run)),
      metrics_(flags.metrics),
      progress_(console.out, console.is_terminal, start_.first_step(), recipe().steps),
      done_(start_.first_step()) {
  const dist::FolderLock writable(start_.out);  // better now than after an hour
  nn::materialize(gpt_, device, start_.run.seed);
  prepare(gpt_, start_.run);
  adam_ = make_optimizer(gpt_, recipe());
  if (start_.saved) {
    start_.saved->load(gpt_, *adam_);
    best_ = start_.saved->validation_loss();
    saved_ = done_;
  }
  schedule_.set_position(done_);
}

void Training::announce() {
  const models::GptOptions& m = recipe().model;
  const data::Corpus& corpus = start_.corpus;
  console_.out << recipe().name << ": " << grouped(models::parameter_count(m)) << " parameters (" << m.layers
               << " layers, " << m.heads << " heads, " << m.width << " wide, block " << m.block_size << "), "
               << to_string(gpt_.wte.weight.device()) << ", " << start_.run.dtype << ", " << num_threads()
               << (num_threads() == 1 ? " thread\n" : " threads\n");
  console_.out << corpus.dataset << " (" << corpus.where << "): " << grouped(corpus.train.size())
               << " tokens to train on, " << grouped(corpus.validation.size()) << " to validate, vocabulary "
               << corpus.vocabulary_size << "\n";
  if (corpus.entropy)
    console_.out << "its entropy, which no loss stays under: " << *corpus.entropy << " nats\n";
  if (start_.saved) console_.out << "going on from " << start_.saved->where() << "\n";
  console_.out << std::flush;
}

void Training::step(data::Loader& loader) {
  profile_.before_step(done_ + 1);
  std::optional<SpanScope> span(std::in_place, SpanKind::step, "step", done_ + 1);
  const double began = seconds_now();
  const std::optional<data::Batch> batch = loader.next();
  schedule_.apply(*adam_);
  const double rate = schedule_.at(schedule_.position());
  const StepResult result = train_step(gpt_, *adam_, *batch, start_.run);
  schedule_.advance();
  ++done_;
  const double seconds = seconds_now() - began;
  span.reset();
  profile_.after_step(done_);

  const double tokens = static_cast<double>(batch->x.numel());
  last_ = {
      .step = done_,
      .loss = result.loss,
      .validation_loss = std::nullopt,
      .learning_rate = rate,
      .gradient_norm = result.gradient_norm,
      .step_ms = 1e3 * seconds,
      .tokens_per_second = tokens / seconds,
      .flops_per_second = tokens / seconds * static_cast<double>(models::flops_per_token(recipe().model)),
      .mfu = std::nullopt};
  if (product_rate_) last_.mfu = last_.flops_per_second / *product_rate_;
  if (done_ - start_.first_step() > warming_steps || is_last()) {
    timed_seconds_ += seconds;
    ++timed_steps_;
  }
  smooth_speed_ =
      smooth_speed_ == 0 ? last_.tokens_per_second : 0.9 * smooth_speed_ + 0.1 * last_.tokens_per_second;
  progress_.step(done_, result.loss, rate, smooth_speed_);
}

void Training::evaluate_if_due() {
  if (!is_due(flags_.eval_interval)) return;
  last_.validation_loss = evaluate(gpt_, start_.corpus.validation,
                                   {.batch_size = start_.run.micro_batch_size,
                                    .batches = flags_.eval_steps,
                                    .seed = start_.run.seed,
                                    .stop = [this] { return interrupt_.requested(); }});
  if (!last_.validation_loss) return;
  newest_ = last_.validation_loss;
  require<NonFiniteError>(std::isfinite(*newest_), "step ", done_, ": the validation loss is ", *newest_);
  progress_.line(text("step ", done_, ": validation loss ", *newest_));
}

void Training::save_if_due() {
  const bool is_best = last_.validation_loss && (!best_ || *last_.validation_loss < *best_);
  if (is_best) best_ = last_.validation_loss;
  if (is_last() || is_due(flags_.checkpoint_interval) || (is_best && flags_.checkpoint_interval > 0)) save();
}

void Training::save() {
  if (saved_ == done_) return;
  dist::save_checkpoint(start_.out, training_state(start_.run, start_.corpus, done_, last_.validation_loss),
                        saved_tensors(gpt_, *adam_), {.keep = flags_.keep});
  saved_ = done_;
}

int Training::finish() {
  profile_.stop();
  progress_.finish();
  const double tokens = static_cast<double>(timed_steps_ * recipe().batch_size * recipe().model.block_size);
  const double speed = timed_seconds_ > 0 ? tokens / timed_seconds_ : 0;
  const PeakMemory measured = peak_of(*current_account()), planned = plan_memory(start_.run).peak;
  metrics_.end({.step = done_,
                .validation_loss = newest_,
                .tokens_per_second = speed,
                .seconds = timed_seconds_,
                .measured = measured,
                .planned = planned});
  if (!is_last()) console_.out << interrupt_.name() << ": stopped after step " << done_ << "\n";
  if (is_last() && newest_) {
    console_.out << "validation loss " << *newest_;
    if (start_.corpus.entropy)
      console_.out << ", " << *newest_ - *start_.corpus.entropy << " above the entropy";
    console_.out << "\n";
  }
  if (speed > 0) console_.out << grouped(static_cast<int64_t>(speed)) << " tokens a second\n";
  console_.out << "memory at its peak      planned          measured\n"
               << describe(planned, &measured) << "  resident, libraries included          "
               << scaled(static_cast<double>(peak_resident_bytes()), "B") << "\n";
  profile_.finish(console_.out);
  console_.out << "saved " << start_.out << "/" << dist::step_name(saved_) << std::endl;
  return is_last() ? tools::exit_done : interrupt_.exit_status();
}

int Training::run() {
  announce();
  if (!flags_.metrics.empty()) product_rate_ = measured_product_rate(gpt_.wte.weight.dtype());
  metrics_.start(start_.run, start_.corpus, gpt_.wte.weight.device(), done_, product_rate_);
  if (!flags_.parity_export.empty()) export_for_parity(flags_.parity_export, gpt_, *batches_, recipe().steps);
  data::Loader loader(
      batches_, {.first_step = done_, .last_step = recipe().steps, .workers = 0, .seed = start_.run.seed});
  while (!is_last() && !interrupt_.requested()) {
    step(loader);
    evaluate_if_due();
    metrics_.step(last_);
    save_if_due();
  }
  save();
  return finish();
}

}  // namespace

int train(const TrainFlags& flags, Console console) {
  const Device device = apply_device(flags.device);
  const AccountScope own(
      make_intrusive<MemoryAccount>());  // what other runs of this process took is not ours
  Start start = make_start(flags);
  std::ostream nowhere(nullptr);
  const Console shown{flags.quiet ? nowhere : console.out, console.is_terminal};
  if (flags.explain) {
    console.out << explain(flags, start);
    return tools::exit_done;
  }
  StepProfile profile(flags, start.first_step(), start.run.recipe.steps);
  return Training(flags, std::move(start), profile, device, shown).run();
}

}  // namespace tessera::gptlite
