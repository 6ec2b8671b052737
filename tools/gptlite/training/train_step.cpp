#include "tools/gptlite/training/train_step.h"

#include <algorithm>
#include <cmath>

#include "data/text/windows.h"
#include "optim/parameter_groups.h"
#include "optim/rules/adam.h"
#include "optim/schedules/cosine.h"
#include "tensor/error.h"
#include "tensor/profile/span.h"
#include "tensor/random/random_context.h"
#include "tools/gptlite/plan/units.h"

namespace tessera::gptlite {
namespace {

std::unique_ptr<optim::Optimizer> make_optimizer(const ParameterList& parameters,
                                                 const models::Preset& preset) {
  return std::make_unique<optim::AdamW>(
      optim::decay_groups(parameters, optim::AdamWOptions{.lr = preset.learning_rate,
                                                          .betas = {preset.beta1, preset.beta2},
                                                          .weight_decay = preset.weight_decay}));
}

optim::Schedule make_schedule(const models::Preset& preset) {
  return optim::cosine({.lr = preset.learning_rate,
                        .min_lr = preset.min_learning_rate,
                        .warmup_steps = preset.warmup_steps,
                        .steps = preset.steps});
}

training::TrainingConfig config_of(const Run& run, bool has_ranks) {
  constexpr int64_t no_limit = int64_t{1} << 53;
  const Parallel& p = run.parallel;
  training::TrainingConfig config;
  config.micro_batch_size = run.micro_batch_size;
  config.accumulation_steps = std::max<int64_t>(1, samples_per_rank(run) / run.micro_batch_size);
  config.gradient_clip = run.preset.gradient_clip;
  config.precision =
      compute_dtype(run.dtype) == f32 ? training::PrecisionMode::f32 : training::PrecisionMode::bf16;
  config.seed = run.seed;
  if (!has_ranks) return config;
  config.strategy = p.strategy;
  if (dist::traits_of(p.strategy).replicates) config.shard_group_size = p.shard_group_size;
  config.gather_bucket_size = config.prefetch_bucket_size = no_limit;
  config.reduce_bucket_size = dist::traits_of(p.strategy).shards_optimizer
                                  ? no_limit
                                  : std::max<int64_t>(1, p.bucket_bytes / size_of(f32));
  config.backward_prefetch = p.backward_prefetch;
  config.accumulate_communication = p.accumulate_communication;
  return config;
}

}  // namespace

std::unique_ptr<training::EngineCore> make_engine(models::Gpt& gpt, const Run& run, Device device,
                                                  dist::World* world) {
  training::EngineOptions options{
      .config = config_of(run, world != nullptr),
      .optimizer = [&](const ParameterList& parameters) { return make_optimizer(parameters, run.preset); },
      .schedule = make_schedule(run.preset),
      .world = world,
      .units = unit_policy(run.parallel.auto_wrap),
      .device = device};
  auto engine = std::make_unique<training::EngineCore>(gpt, std::move(options));
  gpt.blocks.set_checkpointing(run.checkpointing);
  return engine;
}

std::shared_ptr<const data::BatchSource> make_batches(const data::Corpus& corpus, const Run& run, int rank) {
  return std::make_shared<data::RandomWindows>(
      corpus.train, data::RandomWindows::Options{.block = run.preset.model.block_size,
                                                 .batch_size = run.preset.batch_size,
                                                 .seed = run.seed,
                                                 .rank = rank,
                                                 .world_size = run.parallel.world_size});
}

Variable forward_loss(models::Gpt& gpt, const data::Batch& micro_batch) {
  const SpanScope span(SpanKind::phase, "forward");
  const Device device = gpt.wte.weight.device();
  return gpt.loss(micro_batch.x.to(device), micro_batch.y.to(device));
}

double train_step(training::EngineCore& engine, models::Gpt& gpt, const data::Batch& batch) {
  double mean = 0;
  const int64_t size = engine.train_micro_batch_size_per_gpu();
  const double share = static_cast<double>(size) / static_cast<double>(batch.size());
  for (int64_t first = 0; first < batch.size(); first += size) {
    const data::Batch micro_batch = size == batch.size() ? batch : batch.micro_batch(first, size);
    begin_random_step(engine.config().seed, micro_batch.step, micro_batch.samples);
    engine.begin_micro_batch();
    const Variable loss = forward_loss(gpt, micro_batch);
    const double value = loss.value().is_meta() ? 0 : loss.value().item();
    // Ranks of a sharded model throw together, by the gradients' norm.
    require<NonFiniteError>(engine.sharding() || std::isfinite(value), "step ", micro_batch.step + 1,
                            ": the loss is ", value, "; no parameter was changed by this step");
    mean += share * value;
    engine.backward(loss, share);
    engine.step();
  }
  return mean;
}

}  // namespace tessera::gptlite
