#include "dist/train/trainer/trainer.h"

#include <algorithm>
#include <utility>

#include "dist/train/callbacks/deepspeed_reports.h"
#include "dist/train/deepspeed/configuration.h"
#include "dist/train/launch/device_choice.h"
#include "dist/train/launch/signal_watch.h"
#include "dist/train/manual/learning_rates.h"
#include "dist/train/ranks/run_together.h"
#include "dist/train/trainer/stage_batches.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/ops/creation/creation.h"

namespace tessera::training {
namespace {

void require_option(bool is_right, const char* name, int64_t value, const char* expected) {
  require<ConfigError>(is_right, "Trainer: ", name, " ", value, ": expected ", expected);
}

/// Throws ConfigError for a module that is sharded or rounded: an engine does both itself.
void require_unchanged(nn::Module& module) {
  bool is_sharded = false, is_rounded = false;
  module.for_each([&](nn::Module& each) { is_sharded |= each.store() != nullptr; });
  module.for_each_entry(
      [&](const std::string&, const nn::Module::Entry& entry) { is_rounded |= entry.master.defined(); });
  require<ConfigError>(!is_sharded && !is_rounded, "Trainer::fit: expected a task of its own, got one that ",
                       is_sharded ? "is sharded already" : "is in mixed precision already",
                       ", as after a fit; to go on, give a new task and `resume` or `init_from`");
}

void warn_of_missing_reports(const TrainerOptions& options) {
  if (const std::string keys = missing_deepspeed_reports(options); !keys.empty())
    options.log.warning("train.config", options.strategy.name(), ": ", keys,
                        ": without effect, since they need callbacks or monitors (add_deepspeed_reports)");
}

}  // namespace

Trainer::Trainer(TrainerOptions options)
    : options_(std::move(options)), given_accumulate_(options_.accumulate) {
  const TrainerOptions& o = options_;
  require_option(o.max_epochs >= -1, "max_epochs", o.max_epochs, "-1 or more");
  require_option(o.max_steps >= -1, "max_steps", o.max_steps, "-1 or more");
  require_option(o.accumulate >= 1, "accumulate", o.accumulate, "1 or more");
  require_option(o.validate_every >= 0, "validate_every", o.validate_every, "0 or more");
  require_option(o.num_sanity_val_steps >= -1, "num_sanity_val_steps", o.num_sanity_val_steps, "-1 or more");
  require_option(o.log_every >= 0, "log_every", o.log_every, "0 or more");
  require_option(o.overfit_batches >= 0, "overfit_batches", o.overfit_batches, "0 or more");
  require_option(o.limit_train_batches >= -1 && o.limit_train_batches != 0, "limit_train_batches",
                 o.limit_train_batches, "-1, or 1 or more");
  require_option(o.limit_val_batches >= -1, "limit_val_batches", o.limit_val_batches, "-1 or more");
  require_option(o.limit_test_batches >= -1, "limit_test_batches", o.limit_test_batches, "-1 or more");
  require_option(o.limit_predict_batches >= -1, "limit_predict_batches", o.limit_predict_batches,
                 "-1 or more");
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
  options_.device = choose_device(o.accelerator, o.device, o.world);
  TrainingConfig config = given_config();
  configuration_ = o.strategy.apply(config, data_ranks());
  options_.precision = config.precision;
  options_.gradient_clip = config.gradient_clip;
  std::stable_partition(options_.callbacks.begin(), options_.callbacks.end(),
                        [](const auto& callback) { return !callback->saves_run(); });
  for (size_t i = 0; i < o.callbacks.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const Callback &a = *o.callbacks[i], &b = *o.callbacks[j];
      require<ConfigError>(a.state_key() != b.state_key() || a.state().empty() || b.state().empty(),
                           "Trainer: two callbacks have the state_key '", a.state_key(),
                           "': expected another one of each, since a checkpoint keeps both states");
    }
  if (rank() != 0) return;
  reports_.set_monitors(o.monitors);
  if (configuration_)
    for (const std::string& warning : configuration_->warnings) o.log.warning("train.config", warning);
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

LearningRates& Trainer::rates() {
  return manual_ ? manual_->rates() : *rates_;
}

/// Weights that ranks shard are not kept: a copy of each would undo the sharding. In stages none are, since
/// no plan counts them there. Outside of a fit a model that `dist::shard` was called for counts as sharded,
/// whatever its strategy.
bool Trainer::keeps_packed_weights(Task& task) {
  if (!options_.keep_packed_weights || options_.stages.stages > 0) return false;
  return is_fitting() ? !dist::traits_of(engine().config().strategy).shards_parameters
                      : task.module().store() == nullptr;
}

bool Trainer::is_at_step_end() const {
  return is_fitting() && micro_steps() % options_.accumulate == 0;
}

void Trainer::add_logged(const std::string& name, double value, const LogOptions& options) {
  const bool is_training = is_fitting() && training_values_ == &values_;
  if (options.on_epoch) values_.add(name, value, batch_weight_, options);
  if (options.on_step && is_training)
    step_values_.add(options.on_epoch ? name + "_step" : name, value, batch_weight_, options);
  set_logged(name, value, global_step() + (is_training ? 1 : 0));
}

void Trainer::report(const std::string& name, double value) {
  set_logged(name, value, global_step());
  if (!is_sanity_checking_) reports_.add(global_step(), name, value);
}

void Trainer::report_step() {
  const LoggedValues values = std::exchange(step_values_, LoggedValues());
  if (options_.log_every == 0 || global_step() % options_.log_every != 0) return;
  for (const auto& [name, value] : values.reduce(ranks())) {
    set_logged(name, value, global_step());
    reports_.add(global_step(), name, value);
  }
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
      trainer.tear_down(task);
      trainer.reports_.close();
      trainer.rates_.reset();
      trainer.engine_.reset();
      trainer.manual_.reset();
      trainer.task_ = nullptr;
      task.trainer_ = nullptr;
      trainer.is_sanity_checking_ = false;
      trainer.training_values_ = &trainer.values_;
      trainer.values_.clear();
      trainer.step_values_.clear();
    }
  } end{*this, task};
  try {
    body();
  } catch (const std::exception& error) {
    // The exception that ended the run is the one to be seen; each callback is called.
    for (const auto& callback : options_.callbacks) {
      try {
        callback->on_exception(*this, task, error);
      } catch (const std::exception& other) {
        options_.log.error("train.callback", "on_exception: ", other.what());
      } catch (...) {
        options_.log.error("train.callback", "on_exception: no std::exception");
      }
    }
    throw;
  }
}

void Trainer::start_stage(DataModule& data, Stage stage) {
  run_long_together(options_.world, [&] {
    if (rank() == 0) data.prepare_data();
  });
  data.setup(stage);
  if (!task_) return;  // a plan
  stage_ = stage;
  call([&](Callback& c) { c.setup(*this, *task_, stage); });
}

/// The end of a run, an exception's too: what a callback throws here is dropped.
void Trainer::tear_down(Task& task) noexcept {
  if (!stage_) return;
  const Stage stage = *std::exchange(stage_, std::nullopt);
  for (const auto& callback : options_.callbacks) try {
      callback->teardown(*this, task, stage);
    } catch (const std::exception&) {
    }
}

bool Trainer::is_over() const {
  return (is_stopped_ && is_at_step_end()) || interrupted_ != 0 ||
         (max_epochs() >= 0 && epoch_ >= max_epochs()) || is_last_step() || is_at_end();
}

/// The micro-batches of all epochs may leave some that are no whole step: the run ends before them.
void Trainer::set_end(const StageBatches& training) {
  end_ = -1;
  if (max_epochs() < 0 || training.size() == StageBatches::endless) return;
  const int64_t all = max_epochs() * training.size(), left = all % options_.accumulate;
  require<ConfigError>(all == 0 || all >= options_.accumulate, "Trainer: accumulate ", options_.accumulate,
                       ": expected at most ", all,
                       ", the micro-batches of the run, which would take no step");
  end_ = all - left;
}

/// What the options say without the loader and the strategy.
TrainingConfig Trainer::given_config() const {
  TrainingConfig config;
  config.accumulation_steps = given_accumulate_;
  config.gradient_clip = options_.gradient_clip;
  config.precision = options_.precision;
  config.scaler = options_.scaler;
  config.stages = options_.stages;
  config.activation_checkpoint = options_.activation_checkpoint;
  config.activation_checkpoint_keep = options_.activation_checkpoint_keep;
  config.activation_offload = options_.activation_offload;
  config.activation_offload_bytes = options_.activation_offload_bytes;
  config.seed = options_.seed;
  return config;
}

/// The micro-batches of a step of this loader.
void Trainer::set_accumulate(const LoaderSpec& training) {
  TrainingConfig config = given_config();
  if (training.dataset) config.micro_batch_size = training.options.batch_size;
  options_.strategy.apply(config, data_ranks());
  options_.accumulate = config.accumulation_steps;
}

TrainingConfig Trainer::config_of(const StageBatches& training) {
  TrainingConfig config = given_config();
  config.micro_batch_size = training.micro_batch_size();
  config.accumulation_steps = options_.accumulate;
  config.max_steps = options_.max_steps;
  if (max_epochs() >= 0 && training.size() != StageBatches::endless) {
    const int64_t steps = max_epochs() * training.size() / options_.accumulate;
    config.max_steps = config.max_steps < 0 ? steps : std::min(steps, config.max_steps);
  }
  configuration_ = options_.strategy.apply(config, data_ranks());
  require<ConfigError>(config.accumulation_steps == options_.accumulate, "Trainer: strategy ",
                       options_.strategy.name(), ": train_batch_size ", config.train_batch_size,
                       ": expected the ", training.micro_batch_size() * options_.accumulate * data_ranks(),
                       " samples of a step of the loader's source");
  return config;
}

OptimizerSetup Trainer::optimizer_of(Task& task, const ParameterList& parameters,
                                     const TrainingConfig& config) {
  return with_named(task.configure_optimizers(parameters), configuration_.get(), parameters,
                    config.max_steps);
}

/// On meta: for a plan, of one rank.
void Trainer::make_engine(Task& task, const TrainingConfig& config, bool is_on_meta) {
  require_unchanged(task.module());
  if (rank() == 0 && !is_on_meta) warn_of_missing_reports(options_);
  const auto before_zero_grad = [this](optim::Optimizer& optimizer) {
    call([&](Callback& c) { c.on_before_zero_grad(*this, *task_, optimizer); });
  };
  const bool is_in_stages = options_.stages.stages > 0;
  require<ConfigError>(!is_in_stages || options_.world, "Trainer: stages ", options_.stages.stages,
                       ": expected ranks, got one process without a world");
  require<ConfigError>(!is_in_stages || task.automatic_optimization(), "Trainer: stages ",
                       options_.stages.stages, ": expected automatic optimization");
  if (!task.automatic_optimization()) {
    require<ConfigError>(!configuration_ || !(configuration_->optimizer || configuration_->schedule),
                         "Trainer: strategy ", options_.strategy.name(), ": expected no optimizer and no ",
                         "schedule, since the task has its own (automatic_optimization() is false)");
    manual_ = std::make_unique<ManualOptimization>(
        task.module(), task.configure_parts(),
        EngineOptions{.config = config,
                      .world = options_.world,
                      .units = options_.units,
                      .device = options_.device,
                      .log = options_.log},
        ManualOptimization::Hooks{
            [this](const Variable& loss) {
              call([&](Callback& c) { c.on_before_backward(*this, *task_, loss); });
            },
            [this] { call([&](Callback& c) { c.on_after_backward(*this, *task_); }); },
            [this] { call([&](Callback& c) { c.on_before_optimizer_step(*this, *task_); }); },
            before_zero_grad});
    return;
  }
  OptimizerSetup setup;
  const auto make_optimizer = [&](const ParameterList& parameters) {
    setup = optimizer_of(task, parameters, config);
    return std::move(setup.optimizer);
  };
  engine_ = std::make_unique<EngineCore>(
      task.module(), EngineOptions{.config = config,
                                   .optimizer = make_optimizer,
                                   .world = is_on_meta ? nullptr : options_.world,
                                   .units = options_.units,
                                   .device = is_on_meta ? std::optional(meta()) : options_.device,
                                   .log = is_on_meta ? Logger() : options_.log,
                                   .layers = is_in_stages ? task.layered_model() : nn::LayeredModel(),
                                   .before_zero_grad = before_zero_grad});
  rates_ = std::make_unique<LearningRates>();
  rates_->add("", *engine_, std::move(setup));
  task.pipeline_ = engine_->shared_pipeline();
  task.stages_dtype_ = engine_->compute_dtype();
}

/// All ranks stop for the same signal, after the same step or in the same evaluation.
void Trainer::receive_signals() {
  if (options_.signals.empty() || interrupted_ != 0) return;
  const CategoryScope category(MemoryCategory::communication);
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

/// Whether the run ends with this batch, and its last step was not validated.
bool Trainer::is_validation_at_end() const {
  return has_validation_ && options_.validate_at_end && validated_step_ != global_step() && is_run_end();
}

/// Whether a validation follows the batch that has ended, in a run that no signal ends.
bool Trainer::is_validation_point() const {
  return is_validation_step() || is_validation_at_end() ||
         (has_validation_ && options_.validate_every == 0 && is_run_end());
}

bool Trainer::validation_follows() const {
  return interrupted_ == 0 && is_validation_point();
}

void Trainer::fit(Task& task, DataModule& data) {
  run(task, [&] {
    std::optional<SignalWatch> watch;
    if (!options_.signals.empty()) watch.emplace(options_.signals);
    interrupted_ = 0;
    is_stopped_ = is_validation_due_ = false;
    validated_step_ = -1;
    logged_.clear();
    logged_steps_.clear();
    is_last_batch_ = false;
    start_stage(data, Stage::fit);
    const std::optional<LoaderSpec> spec = data.train_dataloader(), held_out = data.val_dataloader();
    require<ConfigError>(spec.has_value(),
                         "Trainer::fit: expected a training loader (DataModule::train_dataloader), got none");
    set_accumulate(*spec);
    const StageBatches training(*spec, options_, Stage::fit);
    std::optional<StageBatches> validation;
    if (held_out && options_.limit_val_batches != 0) validation.emplace(*held_out, options_, Stage::validate);
    has_validation_ = validation.has_value();
    set_end(training);
    make_engine(task, config_of(training));
    const bool needs_epochs = rates().counts_epochs() || (rates().has_monitor() && !has_validation_);
    require<ConfigError>(
        !needs_epochs || training.size() != StageBatches::endless,
        "Task::configure_optimizers: a schedule of epochs, or a plateau without validations: ",
        "expected a training loader with an end, or limit_train_batches; got a source without ", "end");
    resume_note_.clear();
    products_note_.clear();
    if (!options_.resume.empty()) resume(task);
    if (!options_.init_from.empty()) init_weights();
    reports_.begin(describe(options_.run, engine(), options_.max_epochs, options_.max_steps,
                            options_.resume.empty() ? -1 : global_step()));
    call([&](Callback& c) { c.on_fit_start(*this, task); });
    if (validation && options_.resume.empty()) check_sanity(task, *validation);
    task.module().train();
    call([&](Callback& c) { c.on_train_start(*this, task); });
    epoch_ = micro_steps() / training.size();
    const StageBatches* const held_out_batches = validation ? &*validation : nullptr;
    make_up_validation(task, training, held_out_batches);
    for (; !is_over(); ++epoch_) train_epoch(task, training, held_out_batches);
    call([&](Callback& c) { c.on_train_end(*this, task); });
    call([&](Callback& c) { c.on_fit_end(*this, task); });
    reports_.end(global_step());
  });
}

}  // namespace tessera::training
