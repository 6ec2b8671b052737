#include "dist/train/engine/engine_core.h"

#include <cstdlib>
#include <utility>

#include "autograd/recompute/stores.h"
#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/checkpoint/checkpoint_writer.h"
#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/checkpoint/model_state.h"
#include "dist/train/config/training_fields.h"
#include "dist/train/engine/extra_groups.h"
#include "dist/train/engine/recomputation.h"
#include "dist/train/engine/sharding_options.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "nn/sequence/hold.h"
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

std::vector<dist::TensorGroup> full_tensors(nn::Module& model, optim::Optimizer& optimizer,
                                            const std::vector<dist::GroupShard>& others) {
  std::vector<dist::TensorGroup> groups{{"model", model.state_dict()},
                                        {"optimizer", optimizer.state().tensors}};
  add_full(groups, others);
  return groups;
}

std::vector<dist::GroupShard> all_shards(nn::Module& model, optim::Optimizer& optimizer,
                                         const dist::ShardPlacement& placement,
                                         const std::vector<dist::GroupShard>& others) {
  std::vector<dist::GroupShard> groups = dist::shards_of(model, &optimizer, placement);
  groups.insert(groups.end(), others.begin(), others.end());
  return groups;
}

/// 0 for a checkpoint that another program wrote.
int64_t skipped_steps_of(const dist::TrainingState& state) {
  const auto found = state.run.find(EngineCore::skipped_name);
  return found == state.run.end() ? 0 : std::atoll(found->second.c_str());
}

EngineCore::KeptInputs kept_inputs_of(const TrainingConfig& config) {
  const std::string& place = config.activation_offload;
  require<ConfigError>(place == "cpu" || config.activation_offload_bytes == 0,
                       "Engine: activation_offload_bytes ", config.activation_offload_bytes,
                       ": expected activation_offload cpu, got '", place, "'");
  if (place.empty()) return {};
  if (place == "cpu") {
    const auto store =
        std::make_shared<HostStore>(config.activation_offload_bytes, "activation_offload_bytes");
    return {store->policy(), [store] { return store->account().total().peak; }};
  }
  const auto store = std::make_shared<FileStore>(place);
  return {store->policy(), [store] { return store->peak_bytes(); }};
}

bool is_on_meta(const nn::Module& model) {
  for (const NamedParameter& parameter : model.parameters())
    if (parameter.variable.value().is_meta()) return true;
  return false;
}

}  // namespace

EngineCore::EngineCore(nn::Module& model, EngineOptions options)
    : model_(model),
      config_(with_sizes(options.config, training::data_ranks(options.config.stages,
                                                              options.world ? options.world->size() : 1))),
      world_(options.world),
      device_(options.device.value_or(world_ ? world_->device() : cpu())),
      stage_batch_(std::move(options.stage_batch)),
      schedule_(std::move(options.schedule)),
      before_zero_grad_(std::move(options.before_zero_grad)),
      kept_inputs_(kept_inputs_of(config_)),
      log_(std::move(options.log)) {
  require<ConfigError>(options.optimizer != nullptr,
                       "Engine: expected a function that makes the optimizer, got none");
  const bool has_masters = config_.precision != PrecisionMode::f32;
  const bool has_no_values = !options.sharding && is_on_meta(model_);
  require<ConfigError>(config_.stages.stages > 0 || nn::names_held_elsewhere(model_).empty(),
                       "Engine: ", model_.kind(),
                       " is cut into stages, of which this rank holds its own alone: expected a whole model");
  if (options.sharding)
    sharding_ = options.sharding;
  else if (config_.stages.stages > 0)
    cut(options);
  else if (world_ && (world_->size() > 1 || config_.strategy != dist::Strategy::no_shard))
    sharding_ = &dist::shard(model_, sharding_options(config_, *world_, std::move(options.units)));
  if (has_no_values && !device_.is_meta()) nn::materialize(model_, device_, config_.seed);
  if (has_masters && !sharding_) nn::use_mixed_precision(model_, dtype_of(config_.precision));
  if (config_.precision == PrecisionMode::f16) scaler_ = std::make_unique<optim::GradScaler>(config_.scaler);
  optimizer_ = options.optimizer(pipeline_ ? pipeline_->parameters() : model_.parameters());
  require<ConfigError>(optimizer_ != nullptr, "Engine: the function that makes the optimizer returned none");
  checkpointed_ = std::make_unique<CheckpointedModules>(model_, config_);
  if (schedule_) schedule_->apply(*optimizer_);
}

EngineCore::~EngineCore() = default;

/// Leaves the layers of other stages to their ranks, and shards those of this one.
void EngineCore::cut(EngineOptions& options) {
  const StageOptions& stages = config_.stages;
  require<ConfigError>(world_ != nullptr, "Engine: ", stages.stages,
                       " stages: expected ranks, got one process without a world");
  require<ConfigError>(
      !config_.accumulate_communication,
      "Engine: accumulate_communication: expected false in stages, which reduce gradients once");
  require<ConfigError>(!options.layers.layers.empty(), "Engine: ", stages.stages, " stages: expected ",
                       model_.kind(), " as a list of layers (EngineOptions::layers), got none");
  dist::ShardOptions sharding = sharding_options(config_, *world_, std::move(options.units));
  pipeline_ = std::make_shared<dist::Pipeline>(
      model_, std::move(options.layers),
      dist::PipelineOptions{.mesh = sharding.mesh,
                            .schedule = stages.schedule,
                            .chunks = stages.chunks,
                            .table = training::step_tables(stages, config_.accumulation_steps),
                            .partition = dist::parse_partition_method(stages.partition),
                            .costs = stages.costs,
                            .checkpointing = checkpointing_of(config_),
                            .micro_batches = static_cast<int>(config_.accumulation_steps)});
  if (data_ranks() > 1 || config_.strategy != dist::Strategy::no_shard)
    sharding_ = &pipeline_->shard(std::move(sharding));
}

dist::ShardPlacement EngineCore::placement() const {
  if (pipeline_) return pipeline_->placement();
  return sharding_ ? dist::placement_of(*sharding_) : dist::ShardPlacement{};
}

std::optional<double> EngineCore::run_in_stages(dist::MicroBatch batch) {
  require<ConfigError>(pipeline_ != nullptr, "Engine::run_in_stages: expected an engine with stages");
  micro_batches_.push_back(std::move(batch));
  has_gradients_ = true;
  if (!is_gradient_accumulation_boundary()) return std::nullopt;
  const std::vector<dist::MicroBatch> step = std::exchange(micro_batches_, {});
  take_squares(std::ssize(step));
  return pipeline_->train_step(step, loss_scale());
}

EngineCore::StageEvaluation EngineCore::evaluate_in_stages(const data::Batch& batch) {
  const ForwardScope scope(*this);
  const auto own = static_cast<double>(batch.unpadded_size());
  // Every stage of a column of ranks has the same samples.
  const Tensor samples = Tensor::from({own / config_.stages.stages});
  world_->communicator().all_reduce(samples, dist::Reduction::sum, {.unit = "samples"}).wait();
  dist::MicroBatch micro = stage_batch(batch.without_padding());
  micro.weight = own;
  return {pipeline_->evaluate({&micro, 1}), samples.data<double>()[0]};
}

dist::MicroBatch EngineCore::stage_batch(const data::Batch& batch) const {
  dist::MicroBatch micro =
      stage_batch_ ? stage_batch_(batch) : dist::MicroBatch{.inputs = {batch.x}, .targets = {batch.y}};
  micro.samples = batch.samples;
  return micro;
}

Device EngineCore::device() const {
  return device_;
}

ForwardScope::ForwardScope(const EngineCore& engine)
    : autocast_(engine.compute_dtype()), inputs_(engine.kept_inputs()) {}

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
  require<ConfigError>(!pipeline_,
                       "Engine::backward: in stages forward and backward are one call, train_batch or "
                       "run_in_stages");
  require<ValueError>(loss.numel() == 1, "Engine::backward: expected a loss of one element, got shape ",
                      loss.shape());
  const double share = weight.value_or(1.0 / static_cast<double>(config_.accumulation_steps));
  begin_micro_batch();
  if (is_gradient_accumulation_boundary()) take_squares(1);
  const double factor = share * loss_scale();
  if (factor == 1.0)
    loss.backward();
  else
    loss.backward(Variable(ops::full(loss.shape(), factor, loss.dtype(), loss.device())));
  accumulation_.reset();
  has_gradients_ = true;
}

/// For the norm. Under a loss scaler, unscaling sums the squares: those of backward are of scaled gradients.
void EngineCore::take_squares(int64_t backwards) {
  squares_.reset();  // before others are asked for
  if (!scaler_) squares_ = std::make_unique<optim::GradientSquares>(optimizer_->parameters(), backwards);
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
    const optim::NormOptions norm{.error_if_nonfinite = !scaler_};
    if (is_finite && config_.gradient_clip > 0)
      clip = optim::clip_coefficient(parameters, config_.gradient_clip, norm);
    else
      clip.norm = optim::grad_norm(parameters, norm);
  } catch (const NonFiniteError& error) {
    throw NonFiniteError(
        text("step ", global_steps_ + 1, ": ", error.what(), "; no parameter was changed by this step"));
  }
  squares_.reset();
  gradient_norm_ = clip.norm.is_meta() ? 0 : clip.norm.item();
  bool updated = true;
  if (scaler_)
    updated = scaler_->step(*optimizer_, {.clip = clip.coefficient});
  else
    optimizer_->step({.clip = clip.coefficient});
  ++global_steps_;
  if (!updated) ++skipped_steps_;
  if (before_zero_grad_) before_zero_grad_(*optimizer_);
  optimizer_->zero_grad();
  if (!updated) {
    report(LogLevel::warning, "train.engine",
           text("step ", global_steps_, " is skipped: gradients are not finite; the loss scale is ",
                loss_scale()));
  }
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

void EngineCore::set_gradient_clip(double norm) {
  require<ConfigError>(norm >= 0, "Engine::set_gradient_clip: expected 0 or more, got ", norm);
  config_.gradient_clip = norm;
}

void EngineCore::report(LogLevel level, const char* component, const std::string& message) const {
  if (rank() == 0) log_.write(level, component, message);
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
  const dist::TrainingState state = training_state(extras);
  const dist::SaveOptions options{.keep = extras.keep, .keep_best = extras.keep_best};
  std::string saved;
  if (!is_on_ranks()) {
    saved = dist::save_checkpoint(folder, state, full_tensors(model_, *optimizer_, extras.groups), options);
  } else {
    const std::vector<dist::GroupShard> shards = all_shards(model_, *optimizer_, placement(), extras.groups);
    if (extras.background) {
      extras.background->start(folder, state, shards, options);
      return text(folder, "/", dist::step_name(state.step));
    }
    saved = dist::save_checkpoint(world_->communicator(), folder, state, shards, options);
  }
  report(LogLevel::info, "dist.checkpoint", text("step ", global_steps_, " is saved: ", saved));
  return saved;
}

std::map<std::string, std::string> EngineCore::load_checkpoint(
    const std::string& folder, const std::function<void(const std::map<std::string, std::string>&)>& check,
    const std::vector<dist::GroupShard>& groups) {
  require<ConfigError>(micro_steps_ % config_.accumulation_steps == 0 && !has_gradients_,
                       "Engine::load_checkpoint: expected the end of a step, got micro-batch ",
                       micro_steps_ % config_.accumulation_steps, " of ", config_.accumulation_steps);
  std::unique_ptr<dist::CheckpointReader> reader =
      is_on_ranks() ? dist::open_checkpoint(world_->communicator(), folder)
                    : std::make_unique<dist::CheckpointReader>(dist::find_checkpoint(folder));
  const dist::TrainingState& state = reader->state();
  std::map<std::string, std::string> run(state.run.begin(), state.run.end());
  if (check) check(run);
  const optim::GradScalerState scale{.scale = state.loss_scale.scale,
                                     .hysteresis = static_cast<int>(state.loss_scale.hysteresis),
                                     .good_steps = state.loss_scale.good_steps,
                                     .steps = state.step};
  if (scaler_) optim::GradScaler(config_.scaler).load_state(scale);  // throws before anything has changed
  const std::vector<dist::GroupShard> others = saved_groups(*reader, groups);
  if (is_on_ranks()) {
    dist::load_checkpoint(world_->communicator(), *reader,
                          all_shards(model_, *optimizer_, placement(), others));
  } else {
    dist::load_checkpoint(*reader, full_tensors(model_, *optimizer_, others));
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
  report(LogLevel::info, "dist.checkpoint", text("step ", global_steps_, " is loaded: ", folder));
  return run;
}

}  // namespace tessera::training
