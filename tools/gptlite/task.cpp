#include "tools/gptlite/task.h"

#include <algorithm>
#include <cmath>

#include "autograd/autocast/autocast.h"
#include "data/text/windows.h"
#include "optim/parameter_groups.h"
#include "optim/rules/adam.h"
#include "tensor/error.h"
#include "tools/gptlite/run.h"
#include "tools/gptlite/stages_plan.h"

namespace tessera::gptlite {
namespace {

/// The number of targets that are not padding.
double targets_of(const data::Batch& batch) {
  if (batch.unpadded_size() == 0) return 0;  // the Trainer gives padding valid targets
  const Tensor y = batch.y.to(cpu());
  const int64_t* const first = y.data<int64_t>();
  return static_cast<double>(y.numel() - std::count(first, first + y.numel(), data::ignored_target));
}

training::ShardingStrategy sharding_of(const Parallel& parallel) {
  constexpr int64_t no_limit = int64_t{1} << 53;
  const dist::StrategyTraits traits = dist::traits_of(parallel.strategy);
  return {
      .strategy = parallel.strategy,
      .shard_group_size = traits.replicates ? parallel.shard_group_size : 0,
      .reduce_bucket_size = parallel.reduce_bucket_size > 0 ? parallel.reduce_bucket_size
                            : traits.shards_optimizer
                                ? no_limit
                                : std::max<int64_t>(1, parallel.bucket_bytes / size_of(f32)),
      .gather_bucket_size = parallel.gather_bucket_size > 0 ? parallel.gather_bucket_size : no_limit,
      .prefetch_bucket_size = parallel.prefetch_bucket_size >= 0 ? parallel.prefetch_bucket_size : no_limit,
      .overlap_communication = parallel.overlap_communication,
      .reduce_scatter = parallel.reduce_scatter,
      .gather_partitions = parallel.gather_partitions,
      .backward_prefetch = parallel.backward_prefetch,
      .accumulate_communication = parallel.accumulate_communication};
}

}  // namespace

GptTask::GptTask(const Run& run) : GptTask(run, std::make_unique<models::Gpt>(run.preset.model)) {}

GptTask::GptTask(const Run& run, std::unique_ptr<models::Gpt> gpt) : run_(run), gpt_(std::move(gpt)) {
  set_checkpointing(*gpt_, run);
}

/// Without autocast: the inputs are ids, and in half precision the rounded parameters make everything half,
/// layer norms too.
Variable GptTask::loss_of(const data::Batch& batch) {
  const AutocastScope off(f32);
  return gpt_->loss(batch.x, batch.y);
}

Variable GptTask::training_step(const data::Batch& batch, int64_t) {
  const Variable loss = loss_of(batch);
  if (loss.value().is_meta()) return loss;  // a plan
  const double value = loss.value().item();
  require<NonFiniteError>(std::isfinite(value) || trainer().engine().sharding(), "step ",
                          trainer().global_step() + 1, ": the loss is ", value,
                          "; no parameter was changed by this step");
  log("loss", value, {.on_step = true, .on_epoch = false});
  return loss;
}

void GptTask::validation_step(const data::Batch& batch, int64_t) {
  log("val_loss", loss_of(batch), {.weight = targets_of(batch)});
}

/// Each layer as `loss_of` computes it.
nn::LayeredModel GptTask::layered_model() {
  nn::LayeredModel model = gpt_->to_layered_model();
  for (nn::LayerSpec& layer : model.layers)
    layer.run = [run = std::move(layer.run)](const nn::LayerValues& inputs) {
      const AutocastScope off(f32);
      return run(inputs);
    };
  model.loss.run = [run = std::move(model.loss.run)](const nn::LayerValues& outputs,
                                                     const std::vector<Tensor>& targets) {
    const AutocastScope off(f32);
    return run(outputs, targets);
  };
  return model;
}

dist::MicroBatch GptTask::stage_batch(const data::Batch& batch) {
  return {.inputs = {batch.x}, .targets = {batch.y}, .weight = targets_of(batch)};
}

void GptTask::stage_validation_loss(double loss, const data::Batch& batch) {
  log("val_loss", loss, {.weight = targets_of(batch)});
}

training::OptimizerSetup GptTask::configure_optimizers(const ParameterList& parameters) {
  const models::Preset& p = run_.preset;
  const optim::AdamWOptions options{
      .lr = p.learning_rate, .betas = {p.beta1, p.beta2}, .eps = run_.eps, .weight_decay = p.weight_decay};
  return {std::make_unique<optim::AdamW>(optim::decay_groups(parameters, options)), schedule_of(run_)};
}

TextModule::TextModule(const data::Corpus& corpus, const Run& run, std::optional<Evaluation> evaluation)
    : corpus_(corpus), run_(run), evaluation_(evaluation) {}

std::optional<training::LoaderSpec> TextModule::train_dataloader() {
  return training::LoaderSpec{.source = [this](int rank, int) { return make_batches(corpus_, run_, rank); }};
}

std::optional<training::LoaderSpec> TextModule::val_dataloader() {
  if (!evaluation_) return std::nullopt;
  const auto windows = [this](int rank, int world_size) -> std::shared_ptr<const data::BatchSource> {
    const int64_t block = run_.preset.model.block_size, batch_size = evaluation_->batch_size * world_size;
    const data::Tokens& text = corpus_.validation;
    if (evaluation_->batches == 0)
      return std::make_shared<data::ConsecutiveWindows>(
          text, data::ConsecutiveWindows::Options{.block = block,
                                                  .batch_size = batch_size,
                                                  .pad = world_size > 1,
                                                  .rank = rank,
                                                  .world_size = world_size});
    return std::make_shared<data::RandomWindows>(
        text, data::RandomWindows::Options{.block = block,
                                           .batch_size = batch_size,
                                           .seed = run_.seed,
                                           .stream = data::WindowStream::estimate,
                                           .rank = rank,
                                           .world_size = world_size});
  };
  return training::LoaderSpec{.source = windows};
}

training::TrainerOptions trainer_options(const Run& run, dist::World* world) {
  training::TrainerOptions options;
  options.max_steps = run.preset.steps;
  if (world) options.strategy = sharding_of(run.parallel);
  const DType dtype = compute_dtype(run.dtype);
  options.precision = dtype == f32    ? training::PrecisionMode::f32
                      : dtype == bf16 ? training::PrecisionMode::bf16
                                      : training::PrecisionMode::f16;
  options.scaler = run.scaler;
  options.accumulate = std::max<int64_t>(1, samples_per_rank(run) / run.micro_batch_size);
  options.gradient_clip = run.preset.gradient_clip;
  options.seed = run.seed;
  options.activation_offload = run.activation_offload;
  options.activation_offload_bytes = run.activation_offload_bytes;
  options.keep_packed_weights = run.keep_packed_weights;
  options.units = unit_policy(run.parallel.auto_wrap);
  options.world = world;
  if (run.parallel.pipeline_stages > 0) {
    options.stages = stage_options(run);
    options.stages.costs = stage_costs(run);
  }
  return options;
}

std::shared_ptr<const data::BatchSource> make_batches(const data::Corpus& corpus, const Run& run, int rank) {
  return std::make_shared<data::RandomWindows>(
      corpus.train, data::RandomWindows::Options{.block = run.preset.model.block_size,
                                                 .batch_size = run.preset.batch_size,
                                                 .seed = run.seed,
                                                 .rank = rank,
                                                 .world_size = run.parallel.data_ranks()});
}

}  // namespace tessera::gptlite
