#include "dist/train/engine/engine_core.h"

#include <cstdlib>
#include <utility>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/checkpoint/checkpoint_writer.h"
#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/checkpoint/model_state.h"
#include "dist/train/config/training_fields.h"
#include "dist/train/engine/sharding_options.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "optim/clip.h"
#include "optim/gradient_squares.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"

namespace tessera::training {
namespace {

DType dtype_of(PrecisionMode precision) {
  if (precision == PrecisionMode::f32) return f32;
  return precision == PrecisionMode::bf16 ? bf16 : f16;
}

TrainingConfig with_sizes(TrainingConfig config, int ranks) {
  const BatchSizes sizes = resolve_batch_sizes(
      {config.train_batch_size, config.micro_batch_size, config.accumulation_steps}, ranks);
  config.train_batch_size = sizes.train_batch_size;
  config.micro_batch_size = sizes.micro_batch_size;
  config.accumulation_steps = sizes.accumulation_steps;
  return config;
}

std::vector<dist::TensorGroup> full_tensors(nn::Module& model, optim::Optimizer& optimizer) {
  return {{"model", model.state_dict()}, {"optimizer", optimizer.state().tensors}};
}

constexpr const char* skipped_key = "skipped_steps";

/// 0 for a checkpoint that another program wrote.
int64_t skipped_steps_of(const dist::TrainingState& state) {
  const auto found = state.run.find(skipped_key);
  return found == state.run.end() ? 0 : std::atoll(found->second.c_str());
}

bool is_on_meta(const nn::Module& model) {
  for (const NamedParameter& parameter : model.parameters())
    if (parameter.variable.value().is_meta()) return true;
  return false;
}

}  // namespace

EngineCore::EngineCore(nn::Module& model, EngineOptions options)
    : model_(model),
      config_(with_sizes(options.config, options.world ? options.world->size() : 1)),
      world_(options.world),
      schedule_(std::move(options.schedule)) {
  require<ConfigError>(options.optimizer != nullptr,
                       "Engine: expected a function that makes the optimizer, got none");
  const bool has_masters = config_.precision != PrecisionMode::f32;
  const Device device = world_ ? world_->device() : cpu();
  const bool has_no_values = is_on_meta(model_);
  if (world_ && (world_->size() > 1 || config_.strategy != dist::Strategy::no_shard))
    sharding_ = &dist::shard(model_, sharding_options(config_, *world_, std::move(options.units)));
  if (has_no_values) nn::materialize(model_, device, config_.seed);
  if (has_masters && !sharding_) nn::use_mixed_precision(model_, dtype_of(config_.precision));
  if (config_.precision == PrecisionMode::f16) scaler_ = std::make_unique<optim::GradScaler>(config_.scaler);
  optimizer_ = options.optimizer(model_.parameters());
  require<ConfigError>(optimizer_ != nullptr, "Engine: the function that makes the optimizer returned none");
  if (schedule_) schedule_->apply(*optimizer_);
}

EngineCore::~EngineCore() = default;

Device EngineCore::device() const {
  return world_ ? world_->device() : cpu();
}

DType EngineCore::compute_dtype() const {
  return dtype_of(config_.precision);
}

bool EngineCore::is_gradient_accumulation_boundary() const {
  return (micro_steps_ + 1) % config_.accumulation_steps == 0;
}

void EngineCore::begin_micro_batch() {
  if (is_gradient_accumulation_boundary())
    accumulation_.reset();
  else if (sharding_ && !accumulation_)
    accumulation_.emplace(*sharding_, config_.accumulate_communication);
}

void EngineCore::backward(const Variable& loss, std::optional<double> weight) {
  require<ValueError>(loss.numel() == 1, "Engine::backward: expected a loss of one element, got shape ",
                      loss.shape());
  const double share = weight.value_or(1.0 / static_cast<double>(config_.accumulation_steps));
  begin_micro_batch();
  if (!sharding_ && !scaler_ && is_gradient_accumulation_boundary())
    squares_ = std::make_unique<optim::GradientSquares>(optimizer_->parameters());
  const double factor = share * loss_scale();
  if (factor == 1.0)
    loss.backward();
  else
    loss.backward(Variable(ops::full(loss.shape(), factor, loss.dtype(), loss.device())));
  accumulation_.reset();
  has_gradients_ = true;
}

bool EngineCore::step() {
  require<ConfigError>(has_gradients_, "Engine::step: expected `backward` of this micro-batch before it");
  has_gradients_ = false;
  const bool is_last = is_gradient_accumulation_boundary();
  bool updated = false;
  if (is_last) updated = update();
  ++micro_steps_;
  return updated;
}

bool EngineCore::update() {
  const ParameterList& parameters = optimizer_->parameters();
  const bool is_finite = !scaler_ || scaler_->unscale(parameters);
  optim::ClipCoefficient clip;
  try {
    const optim::NormOptions norm{.error_if_nonfinite = !scaler_, .squares = squares_.get()};
    if (is_finite && config_.gradient_clip > 0)
      clip = optim::clip_coefficient(parameters, config_.gradient_clip, norm);
    else
      clip.norm = optim::grad_norm(parameters, norm);
  } catch (const NonFiniteError& error) {
    throw NonFiniteError(
        text("step ", global_steps_ + 1, ": ", error.what(), "; no parameter was changed by this step"));
  }
  squares_.reset();
  gradient_norm_ = clip.norm.item();
  bool updated = true;
  if (scaler_)
    updated = scaler_->step(*optimizer_, {.clip = clip.coefficient});
  else
    optimizer_->step({.clip = clip.coefficient});
  optimizer_->zero_grad();
  ++global_steps_;
  if (!updated) ++skipped_steps_;
  if (updated && schedule_) {
    schedule_->advance();
    schedule_->apply(*optimizer_);
  }
  return updated;
}

void EngineCore::set_schedule(optim::Schedule schedule) {
  schedule_ = std::move(schedule);
  schedule_->apply(*optimizer_);
}

double EngineCore::loss_scale() const {
  return scaler_ ? scaler_->scale().item() : 1.0;
}

std::vector<double> EngineCore::get_lr() const {
  std::vector<double> rates;
  for (int group = 0; group < optimizer_->group_count(); ++group)
    rates.push_back(optimizer_->lr(group).item());
  return rates;
}

std::string EngineCore::save_checkpoint(const std::string& folder, const SaveExtras& extras) {
  require<ConfigError>(micro_steps_ % config_.accumulation_steps == 0 && !has_gradients_,
                       "Engine::save_checkpoint: expected the end of a step, got micro-batch ",
                       micro_steps_ % config_.accumulation_steps, " of ", config_.accumulation_steps);
  dist::TrainingState state;
  state.step = global_steps_;
  state.seed = config_.seed;
  state.data_position = global_steps_ * config_.train_batch_size;
  state.schedule_step = schedule_ ? schedule_->position() : global_steps_ - skipped_steps_;
  if (scaler_) {
    const optim::GradScalerState scale = scaler_->state();
    state.loss_scale = {.scale = scale.scale, .hysteresis = scale.hysteresis, .good_steps = scale.good_steps};
  }
  Resolved<TrainingConfig> values(training_fields(), config_);
  for (const FieldValue& field : values.values())
    if (field.info.on_resume != OnResume::not_saved) state.run[field.info.name] = field.value;
  state.run[skipped_key] = std::to_string(skipped_steps_);
  for (const auto& [name, value] : extras.run) state.run[name] = value;
  state.validation_loss = extras.validation_loss;
  const dist::SaveOptions options{.keep = extras.keep};
  if (!sharding_) return dist::save_checkpoint(folder, state, full_tensors(model_, *optimizer_), options);
  return dist::save_checkpoint(world_->communicator(), folder, state,
                               dist::shards_of(model_, optimizer_.get(), dist::placement_of(*sharding_)),
                               options);
}

std::map<std::string, std::string> EngineCore::load_checkpoint(
    const std::string& folder, const std::function<void(const std::map<std::string, std::string>&)>& check) {
  require<ConfigError>(micro_steps_ % config_.accumulation_steps == 0 && !has_gradients_,
                       "Engine::load_checkpoint: expected the end of a step, got micro-batch ",
                       micro_steps_ % config_.accumulation_steps, " of ", config_.accumulation_steps);
  std::unique_ptr<dist::CheckpointReader> reader =
      sharding_ ? dist::open_checkpoint(world_->communicator(), folder)
                : std::make_unique<dist::CheckpointReader>(dist::find_checkpoint(folder));
  const dist::TrainingState& state = reader->state();
  std::map<std::string, std::string> run(state.run.begin(), state.run.end());
  if (check) check(run);
  const optim::GradScalerState scale{.scale = state.loss_scale.scale,
                                     .hysteresis = static_cast<int>(state.loss_scale.hysteresis),
                                     .good_steps = state.loss_scale.good_steps,
                                     .steps = state.step};
  if (scaler_) optim::GradScaler(config_.scaler).load_state(scale);  // throws before anything has changed
  if (sharding_) {
    dist::load_checkpoint(world_->communicator(), *reader,
                          dist::shards_of(model_, optimizer_.get(), dist::placement_of(*sharding_)));
  } else {
    dist::load_checkpoint(*reader, full_tensors(model_, *optimizer_));
    nn::round_masters(model_);
  }
  if (scaler_) scaler_->load_state(scale);
  global_steps_ = state.step;
  skipped_steps_ = skipped_steps_of(state);
  micro_steps_ = state.step * config_.accumulation_steps;
  if (schedule_) {
    schedule_->set_position(state.schedule_step);
    schedule_->apply(*optimizer_);
  }
  return run;
}

}  // namespace tessera::training
