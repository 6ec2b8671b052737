#include "dist/train/trainer/trainer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "autograd/grad_mode.h"
#include "data/datasets/dataset_batches.h"
#include "data/loader.h"
#include "data/samplers/sampler.h"
#include "dist/checkpoint/checkpoint_folder.h"
#include "nn/materialize.h"
#include "tensor/error.h"

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

/// The name under which a checkpoint keeps a value of a callback's state.
std::string state_name(const Callback& callback, const std::string& name) {
  return text("callback.", callback.state_key(), ".", name);
}

/// A batch for the model: on the device, floating fields in the dtype of computation. Of a batch without
/// samples, where the loss has the weight 0, targets are 0 instead of ignored: the mean over no target would
/// be NaN, and 0 times it too.
data::Batch prepared(const data::Batch& taken, Device device, DType dtype,
                     const std::vector<std::string>& targets) {
  data::Batch batch = taken.to(device);
  const bool is_empty = batch.unpadded_size() == 0;
  for (const data::Field& field : batch.fields()) {
    if (dtype != f32 && is_floating(field.value.dtype())) batch.set(field.name, field.value.to(dtype));
    if (is_empty && std::find(targets.begin(), targets.end(), field.name) != targets.end())
      batch.set(field.name, Tensor::zeros(field.value.shape(), field.value.dtype(), device));
  }
  return batch;
}

}  // namespace

/// The batches of a loader on this rank, by epoch and index.
class Trainer::Batches {
 public:
  Batches(const LoaderSpec& spec, const TrainerOptions& options, Stage stage)
      : options_(spec.options), seed_(options.seed) {
    const int ranks = options.world ? options.world->size() : 1;
    const bool is_fixed = options.overfit_batches > 0 || stage != Stage::fit;
    data::DatasetBatches::Options batches{.batch_size = spec.options.batch_size * ranks,
                                          .shuffle = spec.options.shuffle && !is_fixed,
                                          .seed = options.seed,
                                          .drop_last = spec.options.drop_last,
                                          .targets = spec.options.targets,
                                          .rank = options.world ? options.world->rank() : 0,
                                          .world_size = ranks,
                                          .collate = spec.options.collate};
    source_ = spec.options.sampler
                  ? std::make_shared<const data::DatasetBatches>(spec.dataset, spec.options.sampler, batches)
                  : std::make_shared<const data::DatasetBatches>(spec.dataset, batches);
    size_ = source_->batches_per_epoch();
    int64_t limit = stage == Stage::fit        ? options.limit_train_batches
                    : stage == Stage::validate ? options.limit_val_batches
                    : stage == Stage::test     ? options.limit_test_batches
                                               : options.limit_predict_batches;
    if (options.fast_dev_run) limit = 1;
    if (options.overfit_batches > 0 && (stage == Stage::fit || stage == Stage::validate))
      limit = options.overfit_batches;
    used_ = limit < 0 ? size_ : std::min(limit, size_);
  }

  const std::vector<std::string>& targets() const { return options_.targets; }
  /// Batches of an epoch that are used.
  int64_t size() const { return used_; }
  /// Batches `first` to the last one of an epoch.
  data::Loader epoch(int64_t epoch, int64_t first) const {
    return data::Loader(source_, {.first_step = epoch * size_ + first,
                                  .last_step = epoch * size_ + used_,
                                  .workers = options_.workers,
                                  .seed = seed_});
  }

 private:
  data::DataLoader::Options options_;
  uint64_t seed_;
  std::shared_ptr<const data::DatasetBatches> source_;
  int64_t size_ = 0, used_ = 0;
};

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
  for (const auto& callback : o.callbacks)
    require<ConfigError>(callback != nullptr, "Trainer: expected callbacks, got a null pointer");
  for (const auto& monitor : o.monitors)
    require<ConfigError>(monitor != nullptr, "Trainer: expected monitors, got a null pointer");
  strategy_of(o.strategy);
  if (rank() == 0) reports_.set_monitors(o.monitors);
}

Trainer::~Trainer() = default;

EngineCore& Trainer::engine() {
  require<ConfigError>(engine_ != nullptr, "Trainer::engine: expected a fit that runs");
  return *engine_;
}

bool Trainer::is_at_step_end() const {
  return engine_ && engine_->micro_steps() % engine_->gradient_accumulation_steps() == 0;
}

std::string Trainer::checkpoint_name() const {
  return dist::step_name(global_step());
}

std::string Trainer::save_checkpoint(const std::string& folder, SaveExtras extras) {
  EngineCore& saved = engine();
  for (const auto& callback : options_.callbacks) {
    for (const auto& [name, value] : callback->state()) extras.run[state_name(*callback, name)] = value;
    for (dist::GroupShard& group : callback->state_tensors(*this, *task_))
      extras.groups.push_back(std::move(group));
  }
  save_sums(*training_values_, ranks(), extras.run);
  const std::string path = saved.save_checkpoint(folder, extras);
  reports_.flush();
  return path;
}

void Trainer::add_logged(const std::string& name, double value, const LogOptions& options) {
  const bool is_training = engine_ && training_values_ == &values_;
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

void Trainer::resume(Task& task) {
  const auto check = [&](const std::map<std::string, std::string>& saved) {
    for (const auto& [name, now] : {std::pair<const char*, std::string>{
                                        "train_batch_size", std::to_string(engine_->train_batch_size())},
                                    {"seed", std::to_string(options_.seed)}}) {
      const auto found = saved.find(name);
      require<CheckpointError>(found != saved.end(), options_.resume, ": has no '", name,
                               "': not a checkpoint of a Trainer");
      require<CheckpointError>(found->second == now, options_.resume, ": this run began with ", name, " ",
                               found->second, ", now it is ", now);
    }
  };
  std::vector<dist::GroupShard> groups;
  for (const auto& callback : options_.callbacks)
    for (dist::GroupShard& group : callback->state_tensors(*this, task)) groups.push_back(std::move(group));
  const std::map<std::string, std::string> saved = engine_->load_checkpoint(options_.resume, check, groups);
  load_sums(values_, rank(), world_size(), saved);
  for (const auto& callback : options_.callbacks) {
    std::map<std::string, std::string> state;
    const std::string prefix = state_name(*callback, "");
    for (const auto& [name, value] : saved)
      if (name.starts_with(prefix)) state[name.substr(prefix.size())] = value;
    if (!state.empty()) callback->load_state(state);
  }
}

template <class Point>
void Trainer::call(Point point) {
  for (const auto& callback : options_.callbacks) point(*callback);
}

template <class Body>
void Trainer::run(Task& task, Body body) {
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

std::unique_ptr<Trainer::Batches> Trainer::batches(const std::optional<LoaderSpec>& spec, Stage stage) const {
  if (!spec) return nullptr;
  require<ConfigError>(spec->dataset != nullptr, "Trainer: expected a dataset of the loader, got none");
  return std::make_unique<Batches>(*spec, options_, stage);
}

bool Trainer::is_over() const {
  const int64_t epochs = options_.fast_dev_run ? 1 : options_.max_epochs;
  return is_stopped_ || (epochs >= 0 && epoch_ >= epochs) ||
         (options_.max_steps >= 0 && engine_->global_steps() >= options_.max_steps);
}

void Trainer::fit(Task& task, DataModule& data) {
  run(task, [&] {
    is_stopped_ = false;
    logged_.clear();
    start_stage(data, Stage::fit);
    const std::optional<LoaderSpec> spec = data.train_dataloader();
    require<ConfigError>(spec.has_value(),
                         "Trainer::fit: expected a training loader (DataModule::train_dataloader), got none");
    const std::unique_ptr<Batches> training = batches(spec, Stage::fit),
                                   validation = batches(data.val_dataloader(), Stage::validate);
    TrainingConfig config;
    config.micro_batch_size = spec->options.batch_size;
    config.accumulation_steps = options_.accumulate;
    config.gradient_clip = options_.gradient_clip;
    config.precision = options_.precision;
    config.strategy = strategy_of(options_.strategy);
    config.seed = options_.seed;
    std::optional<optim::Schedule> schedule;
    engine_ = std::make_unique<EngineCore>(
        task.module(), EngineOptions{.config = config,
                                     .optimizer =
                                         [&](const ParameterList& parameters) {
                                           OptimizerSetup setup = task.configure_optimizers(parameters);
                                           schedule = std::move(setup.schedule);
                                           return std::move(setup.optimizer);
                                         },
                                     .world = options_.world,
                                     .units = options_.units});
    if (schedule) engine_->set_schedule(std::move(*schedule));
    if (!options_.resume.empty()) resume(task);
    reports_.begin(describe(options_.run, *engine_, options_.max_epochs, options_.max_steps,
                            options_.resume.empty() ? -1 : engine_->global_steps()));
    call([&](Callback& c) { c.on_fit_start(*this, task); });
    task.module().train();
    call([&](Callback& c) { c.on_train_start(*this, task); });
    for (epoch_ = engine_->micro_steps() / training->size(); !is_over(); ++epoch_)
      train_epoch(task, *training, validation.get());
    call([&](Callback& c) { c.on_train_end(*this, task); });
    call([&](Callback& c) { c.on_fit_end(*this, task); });
    reports_.end(global_step());
  });
}

void Trainer::train_epoch(Task& task, Batches& training, Batches* validation) {
  int64_t index = engine_->micro_steps() % training.size();
  if (index == 0) values_.clear();  // else a run resumed in this epoch has the sums of the batches before
  call([&](Callback& c) { c.on_train_epoch_start(*this, task); });
  data::Loader loader = training.epoch(epoch_, index);
  for (; !is_over(); ++index) {
    const std::optional<data::Batch> taken = loader.next();
    if (!taken) break;
    is_last_batch_ = index + 1 == training.size();
    const data::Batch batch =
        prepared(*taken, engine_->device(), engine_->compute_dtype(), training.targets());
    batch_weight_ = static_cast<double>(batch.unpadded_size());
    call([&](Callback& c) { c.on_train_batch_start(*this, task, batch, index); });
    engine_->begin_micro_batch();
    const Variable loss = task.training_step(batch, index);
    call([&](Callback& c) { c.on_before_backward(*this, task, loss); });
    engine_->backward(loss, batch.rank_weight() / static_cast<double>(options_.accumulate));
    call([&](Callback& c) { c.on_after_backward(*this, task); });
    const bool is_boundary = engine_->is_gradient_accumulation_boundary();
    if (is_boundary) call([&](Callback& c) { c.on_before_optimizer_step(*this, task); });
    engine_->step();
    if (is_boundary) report_step();
    call([&](Callback& c) { c.on_train_batch_end(*this, task, batch, index); });
    const int64_t every = options_.validate_every;
    if (validation && every > 0 && is_boundary && engine_->global_steps() % every == 0)
      evaluate(task, *validation, Stage::validate);
    if (!is_last_batch_ && !is_over()) reports_.write();  // those of the epoch's end are of the same step
  }
  const std::map<std::string, double> epoch = values_.reduce(ranks());
  for (const auto& [name, value] : epoch) reports_.add(global_step(), values_.epoch_name(name), value);
  if (validation && options_.validate_every == 0) evaluate(task, *validation, Stage::validate);
  for (const auto& [name, value] : epoch) logged_[name] = value;
  call([&](Callback& c) { c.on_train_epoch_end(*this, task); });
  reports_.write();
}

std::map<std::string, double> Trainer::evaluate(Task& task, Batches& batches, Stage stage) {
  const bool is_test = stage == Stage::test;
  held_values_ = std::exchange(values_, LoggedValues());
  training_values_ = &held_values_;
  const bool was_training = task.module().is_training();
  task.module().eval();
  call([&](Callback& c) { is_test ? c.on_test_start(*this, task) : c.on_validation_start(*this, task); });
  if (!is_test) call([&](Callback& c) { c.on_validation_epoch_start(*this, task); });
  const DType dtype = engine_ ? engine_->compute_dtype() : f32;
  const Device device = engine_ ? engine_->device() : options_.world ? options_.world->device() : cpu();
  {
    const NoGrad no_grad;
    data::Loader loader = batches.epoch(0, 0);
    for (int64_t index = 0; const std::optional<data::Batch> taken = loader.next(); ++index) {
      const data::Batch batch = prepared(*taken, device, dtype, batches.targets());
      batch_weight_ = static_cast<double>(batch.unpadded_size());
      call([&](Callback& c) {
        is_test ? c.on_test_batch_start(*this, task, batch, index)
                : c.on_validation_batch_start(*this, task, batch, index);
      });
      is_test ? task.test_step(batch, index) : task.validation_step(batch, index);
      call([&](Callback& c) {
        is_test ? c.on_test_batch_end(*this, task, batch, index)
                : c.on_validation_batch_end(*this, task, batch, index);
      });
    }
  }
  const std::map<std::string, double> values = values_.reduce(ranks());
  for (const auto& [name, value] : values) {
    logged_[name] = value;
    if (engine_) reports_.add(global_step(), name, value);
  }
  if (!is_test) call([&](Callback& c) { c.on_validation_epoch_end(*this, task); });
  call([&](Callback& c) { is_test ? c.on_test_end(*this, task) : c.on_validation_end(*this, task); });
  task.module().train(was_training);
  values_ = std::move(held_values_);
  training_values_ = &values_;
  return values;
}

std::map<std::string, double> Trainer::validate(Task& task, DataModule& data) {
  std::map<std::string, double> values;
  run(task, [&] {
    start_stage(data, Stage::validate);
    const std::unique_ptr<Batches> part = batches(data.val_dataloader(), Stage::validate);
    require<ConfigError>(part != nullptr,
                         "Trainer::validate: expected a loader (DataModule::val_dataloader), got none");
    values = evaluate(task, *part, Stage::validate);
    reports_.add_after_run(values);
  });
  return values;
}

std::map<std::string, double> Trainer::test(Task& task, DataModule& data) {
  std::map<std::string, double> values;
  run(task, [&] {
    start_stage(data, Stage::test);
    const std::unique_ptr<Batches> part = batches(data.test_dataloader(), Stage::test);
    require<ConfigError>(part != nullptr,
                         "Trainer::test: expected a loader (DataModule::test_dataloader), got none");
    values = evaluate(task, *part, Stage::test);
    reports_.add_after_run(values);
  });
  return values;
}

std::vector<Tensor> Trainer::predict(Task& task, DataModule& data) {
  std::vector<Tensor> results;
  run(task, [&] {
    start_stage(data, Stage::predict);
    const std::unique_ptr<Batches> part = batches(data.predict_dataloader(), Stage::predict);
    require<ConfigError>(part != nullptr,
                         "Trainer::predict: expected a loader (DataModule::predict_dataloader), got none");
    const bool was_training = task.module().is_training();
    task.module().eval();
    call([&](Callback& c) { c.on_predict_start(*this, task); });
    const NoGrad no_grad;
    data::Loader loader = part->epoch(0, 0);
    for (int64_t index = 0; const std::optional<data::Batch> batch = loader.next(); ++index)
      results.push_back(task.predict_step(*batch, index));
    call([&](Callback& c) { c.on_predict_end(*this, task); });
    task.module().train(was_training);
  });
  return results;
}

}  // namespace tessera::training
