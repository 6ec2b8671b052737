// The plan of a Trainer's step, and the largest micro-batch that fits into memory: steps traced on meta.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "autograd/autocast/autocast.h"
#include "autograd/recompute/checkpoint.h"
#include "autograd/recompute/stores.h"
#include "dist/train/engine/recomputation.h"
#include "dist/train/engine/sharding_options.h"
#include "dist/train/plan/sharding_plan.h"
#include "dist/train/plan/stages_plan.h"
#include "dist/train/trainer/stage_batches.h"
#include "tensor/error.h"
#include "tensor/packed_weight_scope.h"
#include "tensor/profile/cost.h"
#include "tensor/random/random_context.h"

namespace tessera::training {
namespace {

constexpr int64_t most_samples = int64_t{1} << 20;

/// A batch on meta of `size` samples with the shapes of a sample batch's.
data::Batch meta_batch(const data::Batch& like, int64_t size) {
  const CategoryScope category(MemoryCategory::other);
  data::Batch batch;
  for (const data::Field& field : like.fields()) {
    std::vector<int64_t> sizes(field.value.shape().begin(), field.value.shape().end());
    if (!sizes.empty()) sizes[0] = size;
    batch.set(field.name, Tensor::empty(Shape(sizes), field.value.dtype(), meta()));
  }
  batch.samples.resize(static_cast<size_t>(size));
  std::iota(batch.samples.begin(), batch.samples.end(), 0);
  batch.items = batch.samples;
  return batch;
}

void require_on_meta(const nn::Module& module, const char* caller) {
  for (const NamedParameter& parameter : module.parameters())
    require<ConfigError>(parameter.variable.value().is_meta(), caller, ": expected a task with ",
                         "parameters that have no values yet, got values of '", parameter.name, "'");
}

/// The bytes of an optimizer's state, for the elements that a rank updates, beyond what estimates assume.
int64_t more_state_bytes(optim::Optimizer& optimizer, const std::vector<dist::UnitEstimate>& units) {
  int64_t bytes = 0, elements = 0, held = 0;
  for (const NamedTensor& entry : optimizer.state().tensors)
    if (!entry.name.starts_with("step/")) bytes += entry.tensor.nbytes();
  for (const NamedParameter& parameter : optimizer.parameters()) elements += parameter.variable.numel();
  for (const dist::UnitEstimate& unit : units) held += unit.held_trained;
  const double each = static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(elements, 1));
  return std::llround(each * static_cast<double>(held)) - dist::EstimateOptions().optimizer_bytes * held;
}

/// Bytes of the state that an optimizer has for an element, after a step with gradients on meta.
int64_t state_bytes_of_element(optim::Optimizer& optimizer) {
  int64_t bytes = 0, elements = 0;
  for (const NamedParameter& parameter : optimizer.parameters()) {
    const Tensor& value = parameter.variable.value();
    parameter.variable.set_grad(Tensor::empty(value.shape(), value.dtype(), meta()));
    elements += value.numel();
  }
  optimizer.step();
  for (const NamedTensor& entry : optimizer.state().tensors)
    if (!entry.name.starts_with("step/")) bytes += entry.tensor.nbytes();
  for (const NamedParameter& parameter : optimizer.parameters()) parameter.variable.set_grad({});
  return std::llround(static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(elements, 1)));
}

int64_t bytes_of(const data::Batch& batch) {
  int64_t bytes = 0;
  for (const data::Field& field : batch.fields()) bytes += field.value.nbytes();
  return bytes;
}

/// What a scope that keeps weights packed takes at most, where every matrix is a weight of products.
int64_t packed_weight_bytes(const nn::Module& module, DType compute) {
  int64_t bytes = 0;
  for (const NamedParameter& parameter : module.parameters()) {
    const Shape& shape = parameter.variable.shape();
    if (shape.ndim() == 2) bytes += PackedWeightScope::most_bytes(shape[0], shape[1], compute);
  }
  return bytes;
}

}  // namespace

/// What the plans of a run have in common.
struct Trainer::PlanInput {
  const char* caller;
  data::Batch sample;     // for its shapes
  TrainingConfig config;  // of the run
  int64_t cuts = 1;       // micro-batches that a batch of the loader is cut into
  int64_t most = 0;       // samples that a micro-batch can have
};

Trainer::PlanInput Trainer::plan_input(const TaskMaker& make_task, DataModule& data, const char* caller) {
  require<ConfigError>(make_task != nullptr, caller, ": expected a function that makes the task, got none");
  require<ConfigError>(!task_, caller, ": expected no run that is under way");
  start_stage(data, Stage::fit);
  const RandomContextScope context{RandomContext()};
  const std::optional<LoaderSpec> spec = data.train_dataloader();
  require<ConfigError>(spec.has_value(), caller,
                       ": expected a training loader (DataModule::train_dataloader), got none");
  set_accumulate(*spec);
  const StageBatches training(*spec, options_, Stage::fit);
  StageBatches::Pass pass = training.epoch(0, 0);
  std::optional<MicroBatch> first = pass.next();
  require<DataError>(first.has_value(), caller, ": expected a batch of the training loader, got none");
  require<NotBuiltError>(first->batch.lists().empty(), caller, ": fields that are lists are not there yet");
  const int64_t share = spec->dataset ? spec->dataset->size() / world_size() : most_samples;
  return {.caller = caller,
          .sample = std::move(first->batch),
          .config = config_of(training),
          .cuts = spec->source ? options_.accumulate : 1,
          .most = std::max<int64_t>(1, share)};
}

StepPlan Trainer::plan_step(const TaskMaker& make_task, const PlanInput& input, int64_t size) {
  const RandomContextScope context{RandomContext()};
  const auto account = make_intrusive<MemoryAccount>();
  const MetaAccountScope scope(account);
  const std::unique_ptr<Task> task = make_task();
  require<ConfigError>(task != nullptr, input.caller, ": the function that makes the task returned none");
  require<NotBuiltError>(task->automatic_optimization(), input.caller,
                         ": tasks without automatic optimization are not there yet");
  require_on_meta(task->module(), input.caller);
  struct Restore {
    Trainer& trainer;
    std::vector<std::shared_ptr<Callback>> callbacks = std::exchange(trainer.options_.callbacks, {});
    std::map<std::string, double> logged = trainer.logged_;
    ~Restore() {
      trainer.options_.callbacks = std::move(callbacks);
      trainer.logged_ = std::move(logged);
    }
  } restore{*this};
  TrainingConfig config = input.config;
  config.micro_batch_size = size;
  StepPlan plan{.parameters = task->module().parameters().numel(),
                .ranks = world_size(),
                .micro_batches = config.accumulation_steps,
                .micro_batch_samples = size,
                .strategy = config.strategy};
  if (options_.stages.stages > 0) {
    plan_stages(*task, input, config, plan);
    return plan;
  }
  if (options_.world && (world_size() > 1 || config.strategy != dist::Strategy::no_shard))
    plan.sharding = dist::estimate(task->module(), options_.units, estimate_options(config, world_size()));
  run(*task, [&] { trace_steps(*task, input, config, *account, plan); });
  if (plan.sharding) {
    // Messages and gathered parameters need not coincide with the peak of one rank alone: the sum of the
    // categories' peaks is the upper bound.
    auto& bytes = plan.peak.by_category;
    bytes[static_cast<size_t>(MemoryCategory::activation)] = account->count(MemoryCategory::activation).peak;
    plan.peak = with_estimate(plan.peak, *plan.sharding);
  }
  return plan;
}

void Trainer::trace_steps(Task& task, const PlanInput& input, TrainingConfig config,
                          const MemoryAccount& account, StepPlan& plan) {
  const int64_t size = config.micro_batch_size;
  const double share = 1.0 / static_cast<double>(config.accumulation_steps);
  // All micro-batches between the first and the last one take the same bytes.
  config.accumulation_steps = std::min<int64_t>(config.accumulation_steps, 3);
  config.train_batch_size = 0;  // follows from the others
  make_engine(task, config, true);
  task.module().train();
  batch_weight_ = static_cast<double>(size);
  data::Batch whole;
  const auto micro_batch = [&](int64_t step, int64_t i) {
    if (input.cuts == 1 || i == 0) {
      whole = data::Batch();  // freed before the next one is there
      whole = meta_batch(input.sample, input.cuts * size);
    }
    const data::Batch micro = input.cuts == 1 ? whole : whole.micro_batch(i * size, size);
    begin_random_step(config.seed, step, micro.samples);
    return prepared(micro, meta(), {});
  };
  for (int64_t step = 0; step < 2; ++step)  // the second one has the optimizer's state
    for (int64_t i = 0; i < config.accumulation_steps; ++i)
      optimize(task, micro_batch(step, i), share, step * plan.micro_batches + i);
  plan.peak = peak_of(account);
  const bool keeps_packed =
      options_.keep_packed_weights && device().is_cpu() && !dist::traits_of(plan.strategy).shards_parameters;
  if (keeps_packed) {
    const int64_t packed = packed_weight_bytes(task.module(), engine_->compute_dtype());
    plan.peak.by_category[static_cast<size_t>(MemoryCategory::other)] += packed;
    plan.peak.total += packed;
  }
  if (plan.sharding)
    plan.sharding->state.optimizer_state += more_state_bytes(engine_->optimizer(), plan.sharding->units);

  const data::Batch batch = micro_batch(2, 0);
  const int64_t before = account.count(MemoryCategory::activation).current;
  Cost cost;
  const CostScope counting(cost);
  const AutocastScope autocast(engine_->compute_dtype());
  const Variable loss = task.training_step(batch, 2 * plan.micro_batches);
  plan.kept_by_forward = account.count(MemoryCategory::activation).current - before;
  plan.forward_flops = cost.flops;
}

/// In stages the layers are run on meta one by one, and the step is simulated.
void Trainer::plan_stages(Task& task, const PlanInput& input, const TrainingConfig& config, StepPlan& plan) {
  nn::Module& module = task.module();
  dist::SimulationOptions options = simulation_options(module, config, options_.units, world_size());
  const OptimizerSetup setup = optimizer_of(task, module.parameters(), config);
  require<ConfigError>(setup.optimizer != nullptr, input.caller, ": expected an optimizer, got none");
  options.optimizer_bytes = state_bytes_of_element(*setup.optimizer);
  if (options.compute != f32) module.to(options.compute);
  module.train();
  const data::Batch batch = prepared(meta_batch(input.sample, plan.micro_batch_samples), meta(), {});
  const dist::MicroBatch micro = task.stage_batch(batch);
  const CheckpointedModules checkpointed(module, config);
  const AutocastScope autocast(options.compute);
  const CheckpointInputsScope elsewhere(config.activation_offload.empty() ? SavingPolicy()
                                                                          : HostStore().policy());
  nn::LayerValues inputs;
  for (const Tensor& value : micro.inputs) inputs.push_back(Variable(value));
  dist::ModelProfile profile(task.layered_model(), std::move(inputs), micro.targets);
  plan.stages = plan_in_stages(profile, options);
  const int pipeline_rank = rank() / data_ranks();
  const dist::SimulatedRank& own = plan.stages->ranks[static_cast<size_t>(pipeline_rank)];
  plan.peak = {own.peak_bytes(), own.memory};
  // A rank holds the batches of all micro-batches of a step.
  const int64_t batches = plan.micro_batches * bytes_of(batch);
  plan.peak.by_category[static_cast<size_t>(MemoryCategory::other)] += batches;
  plan.peak.total += batches;
  plan.kept_by_forward = kept_by_forward(profile, *plan.stages, options, pipeline_rank);
  for (const dist::LayerProfile& layer : profile.layers()) plan.forward_flops += layer.forward.flops;
}

StepPlan Trainer::plan(const TaskMaker& make_task, DataModule& data) {
  const PlanInput input = plan_input(make_task, data, "Trainer::plan");
  return plan_step(make_task, input, input.config.micro_batch_size);
}

int64_t Trainer::tune(const TaskMaker& make_task, DataModule& data, int64_t memory_limit_bytes) {
  const PlanInput input = plan_input(make_task, data, "Trainer::tune");
  const auto bytes = [&](int64_t size) { return plan_step(make_task, input, size).peak.total; };
  const int64_t least = bytes(1);
  require<ConfigError>(least <= memory_limit_bytes, "Trainer::tune: expected a limit of at least ", least,
                       " bytes, which a step of one sample takes, got ", memory_limit_bytes);
  int64_t fits = 1;
  while (2 * fits <= input.most && bytes(2 * fits) <= memory_limit_bytes) fits *= 2;
  for (int64_t above = std::min(2 * fits, input.most + 1); above - fits > 1;) {
    const int64_t middle = fits + (above - fits) / 2;
    (bytes(middle) <= memory_limit_bytes ? fits : above) = middle;
  }
  return fits;
}

}  // namespace tessera::training
