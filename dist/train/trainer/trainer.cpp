#include "dist/train/trainer/trainer.h"

#include <string_view>
#include <utility>

#include "dist/train/launch/signal_watch.h"
#include "dist/train/trainer/stage_batches.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"

namespace tessera::training {
namespace {

dist::Strategy strategy_of(const std::string& name) {
  constexpr std::pair<std::string_view, dist::Strategy> names[] = {
      {"auto", dist::Strategy::no_shard},
      {"ddp", dist::Strategy::no_shard},
      {"fsdp", dist::Strategy::full_shard},
      {"deepspeed_stage_0", dist::Strategy::no_shard},
      {"deepspeed_stage_1", dist::Strategy::shard_optim},
      {"deepspeed_stage_2", dist::Strategy::shard_grad_op},
      {"deepspeed_stage_3", dist::Strategy::full_shard}};
  for (const auto& [each, strategy] : names)
    if (each == name) return strategy;
  try {
    return dist::parse_strategy(name);
  } catch (const ConfigError& error) {
    throw ConfigError(
        text("Trainer: ", error.what(), ", or auto, ddp, fsdp, deepspeed_stage_0 to deepspeed_stage_3"));
  }
}

void require_option(bool is_right, const char* name, int64_t value, const char* expected) {
  require<ConfigError>(is_right, "Trainer: ", name, " ", value, ": expected ", expected);
}

}  // namespace

Trainer::Trainer(TrainerOptions options) : options_(std::move(options)) {
  const TrainerOptions& o = options_;
  require_option(o.max_epochs >= -1, "max_epochs", o.max_epochs, "-1 or more");
  require_option(o.max_steps >= -1, "max_steps", o.max_steps, "-1 or more");
  require_option(o.accumulate >= 1, "accumulate", o.accumulate, "1 or more");
  require_option(o.validate_every >= 0, "validate_every", o.validate_every, "0 or more");
  require_option(o.log_every >= 0, "log_every", o.log_every, "0 or more");
  require_option(o.overfit_batches >= 0, "overfit_batches", o.overfit_batches, "0 or more");
  require_option(o.limit_train_batches >= -1 && o.limit_train_batches != 0, "limit_train_batches",
                 o.limit_train_batches, "-1, or 1 or more");
  require<ConfigError>(o.gradient_clip >= 0, "Trainer: gradient_clip ", o.gradient_clip,
                       ": expected 0 or more");
  require<ConfigError>(o.max_epochs >= 0 || o.max_steps >= 0 || o.fast_dev_run,
                       "Trainer: expected max_epochs or max_steps, got neither: the run would not end");
  require<ConfigError>(o.resume.empty() || o.init_from.empty(), "Trainer: expected resume or init_from, got ",
                       "resume '", o.resume, "' and init_from '", o.init_from, "'");
  require<ConfigError>(o.devices == 0 || o.devices == world_size(), "Trainer: devices ", o.devices,
                       ": expected ", world_size(),
                       ", the number of ranks, or 0; training::fit starts ranks");
  require<ConfigError>(!o.fast_dev_run || o.overfit_batches == 0, "Trainer: expected fast_dev_run or ",
                       "overfit_batches, got both");
  for (const auto& callback : o.callbacks)
    require<ConfigError>(callback != nullptr, "Trainer: expected callbacks, got a null pointer");
  for (const auto& monitor : o.monitors)
    require<ConfigError>(monitor != nullptr, "Trainer: expected monitors, got a null pointer");
  strategy_of(o.strategy);
  if (rank() == 0) reports_.set_monitors(o.monitors);
}

Trainer::~Trainer() = default;

EngineCore& Trainer::engine() {
  require<ConfigError>(is_fitting(), "Trainer::engine: expected a fit that runs");
  return engine_ ? *engine_ : manual_->active();
}

ManualOptimization& Trainer::manual() {
  require<ConfigError>(manual_ != nullptr, "Trainer::manual: expected a fit of a task whose ",
                       "automatic_optimization() is false");
  return *manual_;
}

bool Trainer::is_at_step_end() const {
  return is_fitting() && micro_steps() % options_.accumulate == 0;
}

void Trainer::add_logged(const std::string& name, double value, const LogOptions& options) {
  const bool is_training = is_fitting() && training_values_ == &values_;
  if (options.on_epoch) values_.add(name, value, batch_weight_, options);
  if (options.on_step && is_training)
    step_values_.add(options.on_epoch ? name + "_step" : name, value, batch_weight_, options);
  logged_[name] = value;
}

void Trainer::report(const std::string& name, double value) {
  logged_[name] = value;
  reports_.add(global_step(), name, value);
}

void Trainer::report_step() {
  const LoggedValues values = std::exchange(step_values_, LoggedValues());
  if (options_.log_every == 0 || global_step() % options_.log_every != 0) return;
  for (const auto& [name, value] : values.reduce(ranks())) reports_.add(global_step(), name, value);
}

void Trainer::run(Task& task, const std::function<void()>& body) {
  require<ConfigError>(task_ == nullptr,
                       "Trainer: a run is under way; begin another one with a trainer of its own");
  task_ = &task;
  task.trainer_ = this;
  struct End {
    Trainer& trainer;
    Task& task;
    ~End() {
      trainer.reports_.close();
      trainer.engine_.reset();
      trainer.manual_.reset();
      trainer.task_ = nullptr;
      task.trainer_ = nullptr;
      trainer.training_values_ = &trainer.values_;
      trainer.values_.clear();
      trainer.step_values_.clear();
    }
  } end{*this, task};
  try {
    body();
  } catch (const std::exception& error) {
    call([&](Callback& c) { c.on_exception(*this, task, error); });
    throw;
  }
}

void Trainer::start_stage(DataModule& data, Stage stage) {
  if (rank() == 0) data.prepare_data();
  if (ranks()) ranks()->barrier().wait();
  data.setup(stage);
}

bool Trainer::is_over() const {
  const int64_t epochs = options_.fast_dev_run ? 1 : options_.max_epochs;
  return is_stopped_ || interrupted_ != 0 || (epochs >= 0 && epoch_ >= epochs) ||
         (options_.max_steps >= 0 && global_step() >= options_.max_steps);
}

TrainingConfig Trainer::config_of(const StageBatches& training) const {
  TrainingConfig config;
  config.micro_batch_size = training.micro_batch_size();
  config.accumulation_steps = options_.accumulate;
  config.gradient_clip = options_.gradient_clip;
  config.precision = options_.precision;
  config.strategy = strategy_of(options_.strategy);
  config.seed = options_.seed;
  return config;
}

void Trainer::make_engine(Task& task, const TrainingConfig& config) {
  if (!task.automatic_optimization()) {
    manual_ = std::make_unique<ManualOptimization>(
        task.module(), task.configure_parts(), config, options_.world, options_.units,
        ManualOptimization::Hooks{
            [this](const Variable& loss) {
              call([&](Callback& c) { c.on_before_backward(*this, *task_, loss); });
            },
            [this] { call([&](Callback& c) { c.on_after_backward(*this, *task_); }); },
            [this] { call([&](Callback& c) { c.on_before_optimizer_step(*this, *task_); }); }});
    return;
  }
  std::optional<optim::Schedule> schedule;
  const auto make_optimizer = [&](const ParameterList& parameters) {
    OptimizerSetup setup = task.configure_optimizers(parameters);
    schedule = std::move(setup.schedule);
    return std::move(setup.optimizer);
  };
  engine_ = std::make_unique<EngineCore>(task.module(), EngineOptions{.config = config,
                                                                      .optimizer = make_optimizer,
                                                                      .world = options_.world,
                                                                      .units = options_.units,
                                                                      .log = options_.log});
  if (schedule) engine_->set_schedule(std::move(*schedule));
}

/// All ranks stop for the same signal, after the same step or in the same evaluation.
void Trainer::receive_signals() {
  if (options_.signals.empty() || interrupted_ != 0) return;
  Tensor newest = ops::full({1}, SignalWatch::received(), i64);
  if (ranks()) ranks()->all_reduce(newest, dist::Reduction::max).wait();
  interrupted_ = static_cast<int>(newest.data<int64_t>()[0]);
}

/// Whether a validation follows the batch that has ended.
bool Trainer::is_validation_step() const {
  const int64_t every = options_.validate_every;
  if (!has_validation_ || !is_at_step_end()) return false;
  return every > 0 ? global_step() % every == 0 : is_last_batch_;
}

void Trainer::fit(Task& task, DataModule& data) {
  run(task, [&] {
    std::optional<SignalWatch> watch;
    if (!options_.signals.empty()) watch.emplace(options_.signals);
    interrupted_ = 0;
    is_stopped_ = is_validation_due_ = false;
    logged_.clear();
    start_stage(data, Stage::fit);
    const std::optional<LoaderSpec> spec = data.train_dataloader(), held_out = data.val_dataloader();
    require<ConfigError>(spec.has_value(),
                         "Trainer::fit: expected a training loader (DataModule::train_dataloader), got none");
    const StageBatches training(*spec, options_, Stage::fit);
    std::optional<StageBatches> validation;
    if (held_out) validation.emplace(*held_out, options_, Stage::validate);
    has_validation_ = validation.has_value();
    make_engine(task, config_of(training));
    resume_note_.clear();
    if (!options_.resume.empty()) resume(task);
    if (!options_.init_from.empty()) init_weights();
    reports_.begin(describe(options_.run, engine(), options_.max_epochs, options_.max_steps,
                            options_.resume.empty() ? -1 : global_step()));
    call([&](Callback& c) { c.on_fit_start(*this, task); });
    task.module().train();
    call([&](Callback& c) { c.on_train_start(*this, task); });
    epoch_ = micro_steps() / training.size();
    if (std::exchange(is_validation_due_, false) && validation) evaluate(task, *validation, Stage::validate);
    for (; !is_over(); ++epoch_) train_epoch(task, training, validation ? &*validation : nullptr);
    call([&](Callback& c) { c.on_train_end(*this, task); });
    call([&](Callback& c) { c.on_fit_end(*this, task); });
    reports_.end(global_step());
  });
}

void Trainer::train_epoch(Task& task, const StageBatches& training, const StageBatches* validation) {
  int64_t index = micro_steps() % training.size();
  if (index == 0) values_.clear();  // else a run resumed in this epoch has the sums of the batches before
  call([&](Callback& c) { c.on_train_epoch_start(*this, task); });
  StageBatches::Pass pass = training.epoch(epoch_, index);
  for (; !is_over(); ++index) {
    const std::optional<MicroBatch> taken = pass.next();
    if (!taken) break;
    is_last_batch_ = index + 1 == training.size();
    train_micro_batch(task, prepared(taken->batch, device(), engine().compute_dtype(), training.targets()),
                      taken->share, index);
    if (options_.validate_every > 0 && is_validation_step() && interrupted_ == 0)
      evaluate(task, *validation, Stage::validate);
    if (!is_last_batch_ && !is_over()) reports_.write();  // those of the epoch's end are of the same step
  }
  const std::map<std::string, double> epoch = values_.reduce(ranks());
  for (const auto& [name, value] : epoch) reports_.add(global_step(), values_.epoch_name(name), value);
  if (validation && options_.validate_every == 0 && interrupted_ == 0)
    evaluate(task, *validation, Stage::validate);
  for (const auto& [name, value] : epoch) logged_[name] = value;
  call([&](Callback& c) { c.on_train_epoch_end(*this, task); });
  reports_.write();
}

/// Forward, backward and step of a micro-batch.
void Trainer::optimize(Task& task, const data::Batch& batch, double share, int64_t index) {
  engine_->begin_micro_batch();
  const Variable loss = task.training_step(batch, index);
  call([&](Callback& c) { c.on_before_backward(*this, task, loss); });
  engine_->backward(loss, share);
  call([&](Callback& c) { c.on_after_backward(*this, task); });
  if (engine_->is_gradient_accumulation_boundary())
    call([&](Callback& c) { c.on_before_optimizer_step(*this, task); });
  engine_->step();
}

void Trainer::train_micro_batch(Task& task, const data::Batch& batch, double share, int64_t index) {
  batch_weight_ = static_cast<double>(batch.unpadded_size());
  call([&](Callback& c) { c.on_train_batch_start(*this, task, batch, index); });
  if (manual_) {
    manual_->begin_micro_batch(share);
    task.training_step(batch, index);
    manual_->end_micro_batch();
  } else {
    optimize(task, batch, share, index);
  }
  if (is_at_step_end()) report_step();
  if (is_at_step_end()) receive_signals();
  if (interrupted_ != 0) is_validation_due_ = is_validation_step();
  call([&](Callback& c) { c.on_train_batch_end(*this, task, batch, index); });
}

}  // namespace tessera::training
