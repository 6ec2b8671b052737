// The largest micro-batch of a Trainer that fits into memory, by traces on meta.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "dist/fsdp/estimate.h"
#include "dist/train/trainer/stage_batches.h"
#include "nn/mixed_precision.h"
#include "optim/clip.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/random/random_context.h"

namespace tessera::training {
namespace {

constexpr int64_t most_samples = int64_t{1} << 20;

/// A batch on meta of `size` samples with the shapes of a sample batch's.
data::Batch meta_batch(const data::Batch& like, int64_t size, DType dtype) {
  const CategoryScope category(MemoryCategory::other);
  require<NotBuiltError>(like.lists().empty(), "Trainer::tune: fields that are lists are not there yet");
  data::Batch batch;
  for (const data::Field& field : like.fields()) {
    std::vector<int64_t> sizes(field.value.shape().begin(), field.value.shape().end());
    if (!sizes.empty()) sizes[0] = size;
    const DType own = is_floating(field.value.dtype()) && dtype != f32 ? dtype : field.value.dtype();
    batch.set(field.name, Tensor::empty(Shape(sizes), own, meta()));
  }
  batch.samples.resize(static_cast<size_t>(size));
  std::iota(batch.samples.begin(), batch.samples.end(), 0);
  batch.items = batch.samples;
  return batch;
}

int64_t elements_of(const nn::Module& module) {
  int64_t sum = 0;
  for (const NamedParameter& parameter : module.parameters()) sum += parameter.variable.numel();
  return sum;
}

void require_on_meta(const nn::Module& module) {
  for (const NamedParameter& parameter : module.parameters())
    require<ConfigError>(parameter.variable.value().is_meta(),
                         "Trainer::tune: expected a task whose "
                         "parameters have no values yet, got values of '",
                         parameter.name, "'");
}

}  // namespace

int64_t Trainer::trace_step(Task& task, const data::Batch& batch, const TrainingConfig& config) {
  const RandomContextScope context{RandomContext()};
  nn::Module& module = task.module();
  require_on_meta(module);
  require<NotBuiltError>(task.automatic_optimization(),
                         "Trainer::tune: tasks without automatic optimization are not there yet");
  const bool is_half = config.precision != PrecisionMode::f32;
  const DType dtype = config.precision == PrecisionMode::bf16 ? bf16 : is_half ? f16 : f32;
  const int64_t elements = elements_of(module);
  const bool is_sharded = options_.world && (world_size() > 1 || config.strategy != dist::Strategy::no_shard);
  dist::EstimateOptions sharding{.strategy = config.strategy,
                                 .shards = world_size(),
                                 .compute = dtype,
                                 .micro_batches = options_.accumulate};
  dist::Estimate estimate;
  if (is_sharded) estimate = dist::estimate(module, options_.units, sharding);
  if (is_half) nn::use_mixed_precision(module, dtype);
  const auto account = current_meta_account();
  const int64_t masters = account->count(MemoryCategory::optimizer_state).current;
  const OptimizerSetup setup = task.configure_optimizers(module.parameters());
  require<ConfigError>(setup.optimizer != nullptr, "Task::configure_optimizers returned no optimizer");
  batch_weight_ = static_cast<double>(batch.size());
  for (int step = 0; step < 2; ++step) {  // the second one has the optimizer's state
    for (int64_t i = 0; i < std::min<int64_t>(options_.accumulate, 2); ++i)
      task.training_step(batch, i).backward();
    optim::ClipCoefficient clip;
    if (options_.gradient_clip > 0)
      clip = optim::clip_coefficient(setup.optimizer->parameters(), options_.gradient_clip);
    setup.optimizer->step({.clip = clip.coefficient});
    setup.optimizer->zero_grad();
  }
  std::array<int64_t, memory_categories> bytes = account->at_peak();
  if (is_sharded) {
    sharding.optimizer_bytes =
        (account->count(MemoryCategory::optimizer_state).current - masters) / std::max<int64_t>(elements, 1);
    // The names and shapes, and so the estimate, are those before mixed precision.
    const int64_t more = sharding.optimizer_bytes - dist::EstimateOptions().optimizer_bytes;
    const auto set = [&](MemoryCategory category, int64_t value) {
      bytes[static_cast<size_t>(category)] = value;
    };
    const dist::StateBytes &state = estimate.state, &temporary = estimate.temporary;
    int64_t held = 0;
    for (const dist::UnitEstimate& unit : estimate.units) held += unit.held_trained;
    set(MemoryCategory::parameter, state.parameter + temporary.parameter);
    set(MemoryCategory::gradient, state.gradient + temporary.gradient);
    set(MemoryCategory::optimizer_state, state.optimizer_state + temporary.optimizer_state + more * held);
    set(MemoryCategory::communication, state.communication + temporary.communication);
  }
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

int64_t Trainer::planned_bytes(const TaskMaker& make_task, const data::Batch& like, int64_t size,
                               const TrainingConfig& config) {
  const auto account = make_intrusive<MemoryAccount>();
  const MetaAccountScope scope(account);
  const std::unique_ptr<Task> task = make_task();
  require<ConfigError>(task != nullptr, "Trainer::tune: the function that makes the task returned none");
  const LoggedValues values = std::exchange(values_, LoggedValues());
  const std::map<std::string, double> logged = logged_;
  struct End {
    Trainer& trainer;
    Task& task;
    const LoggedValues& values;
    const std::map<std::string, double>& logged;
    ~End() {
      task.trainer_ = nullptr;
      trainer.values_ = values;
      trainer.logged_ = logged;
    }
  } end{*this, *task, values, logged};
  task->trainer_ = this;
  const DType dtype = config.precision == PrecisionMode::f32    ? f32
                      : config.precision == PrecisionMode::bf16 ? bf16
                                                                : f16;
  return trace_step(*task, meta_batch(like, size, dtype), config);
}

int64_t Trainer::tune(const TaskMaker& make_task, DataModule& data, int64_t memory_limit_bytes) {
  require<ConfigError>(make_task != nullptr,
                       "Trainer::tune: expected a function that makes the task, got none");
  require<ConfigError>(!task_, "Trainer::tune: expected no run that is under way");
  start_stage(data, Stage::fit);
  const std::optional<LoaderSpec> spec = data.train_dataloader();
  require<ConfigError>(spec.has_value(),
                       "Trainer::tune: expected a training loader (DataModule::train_dataloader), got none");
  const StageBatches training(*spec, options_, Stage::fit);
  StageBatches::Pass pass = training.epoch(0, 0);
  const data::Batch like = pass.next().value().batch;
  const TrainingConfig config = config_of(training);
  const auto bytes = [&](int64_t size) { return planned_bytes(make_task, like, size, config); };
  const int64_t most =
      spec->dataset ? std::max<int64_t>(1, spec->dataset->size() / world_size()) : most_samples;
  const int64_t least = bytes(1);
  require<ConfigError>(least <= memory_limit_bytes, "Trainer::tune: expected a limit of at least ", least,
                       " bytes, which a step of one sample takes, got ", memory_limit_bytes);
  int64_t fits = 1;
  while (2 * fits <= most && bytes(2 * fits) <= memory_limit_bytes) fits *= 2;
  for (int64_t above = std::min(2 * fits, most + 1); above - fits > 1;) {
    const int64_t middle = fits + (above - fits) / 2;
    (bytes(middle) <= memory_limit_bytes ? fits : above) = middle;
  }
  return fits;
}

}  // namespace tessera::training
