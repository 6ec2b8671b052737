#include "dist/train/config/training_fields.h"

#include "dist/train/config/shared_options.h"
#include "tensor/error.h"

namespace tessera::training {
namespace {

using Config = TrainingConfig;

}  // namespace

std::span<const ChoiceName> precision_names() {
  static constexpr ChoiceName names[] = {{static_cast<int>(PrecisionMode::f32), "32"},
                                         {static_cast<int>(PrecisionMode::f16), "16"},
                                         {static_cast<int>(PrecisionMode::bf16), "bf16"}};
  return names;
}

std::span<const ChoiceName> strategy_names() {
  static const std::vector<ChoiceName> names = [] {
    std::vector<ChoiceName> all;
    for (const dist::StrategyRow& row : dist::strategy_table)
      all.push_back({static_cast<int>(row.strategy), row.name});
    return all;
  }();
  return names;
}

std::span<const ChoiceName> prefetch_names() {
  static constexpr ChoiceName names[] = {{static_cast<int>(dist::BackwardPrefetch::pre), "pre"},
                                         {static_cast<int>(dist::BackwardPrefetch::post), "post"},
                                         {static_cast<int>(dist::BackwardPrefetch::none), "none"}};
  return names;
}

std::span<const ChoiceName> schedule_names() {
  static const std::vector<ChoiceName> names = [] {
    std::vector<ChoiceName> all;
    for (const dist::ScheduleKind kind : dist::schedule_kinds)
      all.push_back({static_cast<int>(kind), dist::name_of(kind).data()});  // of a literal
    return all;
  }();
  return names;
}

const FieldTable<TrainingConfig>& training_fields() {
  constexpr Limits count{.low = 0, .high = 0x1p53};
  static const FieldTable<TrainingConfig> table{
      {shared_option("max_steps")
           .with_help("steps of the whole run, for a schedule's \"auto\"; -1: not known"),
       [](Config& c) { return &c.max_steps; }},
      {{"train_batch_size", "samples of a step, of all ranks and micro-batches; 0: derived", "samples", count,
        OnResume::same},
       [](Config& c) { return &c.train_batch_size; }},
      {shared_option("micro_batch_size"), [](Config& c) { return &c.micro_batch_size; }},
      {shared_option("accumulation_steps")
           .with_help("micro-batches of a step on each rank; 0: derived")
           .with_limits(count),
       [](Config& c) { return &c.accumulation_steps; }},
      {shared_option("gradient_clip"), [](Config& c) { return &c.gradient_clip; }},
      {shared_option("precision"), [](Config& c) { return ChoicePointer(&c.precision, precision_names()); }},
      {shared_option("loss_scale"), [](Config& c) { return &c.scaler.loss_scale; }},
      {shared_option("initial_scale_power"), [](Config& c) { return &c.scaler.initial_scale_power; }},
      {shared_option("loss_scale_window"), [](Config& c) { return &c.scaler.loss_scale_window; }},
      {shared_option("hysteresis"), [](Config& c) { return &c.scaler.hysteresis; }},
      {shared_option("consecutive_hysteresis"), [](Config& c) { return &c.scaler.consecutive_hysteresis; }},
      {shared_option("min_loss_scale"), [](Config& c) { return &c.scaler.min_loss_scale; }},
      {shared_option("strategy"), [](Config& c) { return ChoicePointer(&c.strategy, strategy_names()); }},
      {shared_option("shard_group_size"), [](Config& c) { return &c.shard_group_size; }},
      {shared_option("reduce_bucket_size"), [](Config& c) { return &c.reduce_bucket_size; }},
      {shared_option("gather_bucket_size"), [](Config& c) { return &c.gather_bucket_size; }},
      {shared_option("prefetch_bucket_size"), [](Config& c) { return &c.prefetch_bucket_size; }},
      {shared_option("overlap_communication"), [](Config& c) { return &c.overlap_communication; }},
      {shared_option("reduce_scatter"), [](Config& c) { return &c.reduce_scatter; }},
      {shared_option("gather_partitions"), [](Config& c) { return &c.gather_partitions; }},
      {shared_option("backward_prefetch"),
       [](Config& c) { return ChoicePointer(&c.backward_prefetch, prefetch_names()); }},
      {shared_option("accumulate_communication"), [](Config& c) { return &c.accumulate_communication; }},
      {shared_option("pipeline_stages"), [](Config& c) { return &c.stages.stages; }},
      {shared_option("pipeline_schedule"),
       [](Config& c) {
         return ChoicePointer(&c.stages.schedule, schedule_names(), &c.stages.schedule_file, ".csv");
       }},
      {shared_option("pipeline_chunks"), [](Config& c) { return &c.stages.chunks; }},
      {shared_option("pipeline_most_live"), [](Config& c) { return &c.stages.most_live; }},
      {shared_option("partition_method"), [](Config& c) { return &c.stages.partition; }},
      {shared_option("activation_checkpoint_interval"),
       [](Config& c) { return &c.stages.checkpointing.interval; }},
      {shared_option("activation_checkpoint"), [](Config& c) { return &c.activation_checkpoint; }},
      {shared_option("activation_checkpoint_keep"), [](Config& c) { return &c.activation_checkpoint_keep; }},
      {shared_option("activation_offload"), [](Config& c) { return &c.activation_offload; }},
      {shared_option("activation_offload_bytes"), [](Config& c) { return &c.activation_offload_bytes; }},
      {shared_option("seed"), [](Config& c) { return &c.seed; }},
  };
  return table;
}

BatchSizes resolve_batch_sizes(const BatchSizes& given, int64_t ranks) {
  auto [train, micro, steps] = given;
  require<ConfigError>(
      train > 0 || micro > 0,
      "batch sizes: expected train_batch_size, micro_batch_size, or two of the three sizes, got ",
      steps > 0 ? text("accumulation_steps = ", steps, " alone") : text("none"));
  require<ConfigError>(train == 0 || train >= ranks, "train_batch_size ", train,
                       ": expected at least a sample for each of ", ranks, " ranks");
  if (train > 0 && micro > 0 && steps == 0) steps = std::max<int64_t>(1, train / (micro * ranks));
  if (steps == 0) steps = 1;
  if (micro == 0) micro = std::max<int64_t>(1, train / (steps * ranks));
  if (train == 0) train = micro * steps * ranks;
  require<ConfigError>(train == micro * steps * ranks, "train_batch_size ", train,
                       ": expected micro_batch_size * accumulation_steps * ranks = ", micro, " * ", steps,
                       " * ", ranks, " = ", micro * steps * ranks);
  return {train, micro, steps};
}

void resolve(Resolved<TrainingConfig>& config, int64_t ranks) {
  const BatchSizes given{config->train_batch_size, config->micro_batch_size, config->accumulation_steps};
  const BatchSizes sizes = resolve_batch_sizes(given, ranks);
  const auto derive = [&](int64_t before, int64_t TrainingConfig::*member, int64_t value, const char* rule) {
    if (before == 0) config.change({Source::derived, rule}, [&](TrainingConfig& c) { c.*member = value; });
  };
  derive(given.train_batch_size, &TrainingConfig::train_batch_size, sizes.train_batch_size,
         "micro_batch_size * accumulation_steps * ranks");
  derive(given.micro_batch_size, &TrainingConfig::micro_batch_size, sizes.micro_batch_size,
         "train_batch_size / (accumulation_steps * ranks)");
  derive(given.accumulation_steps, &TrainingConfig::accumulation_steps, sizes.accumulation_steps,
         "train_batch_size / (micro_batch_size * ranks)");
  const bool replicates = dist::traits_of(config->strategy).replicates;
  const int64_t group = config->shard_group_size;
  require<ConfigError>(group == 0 || replicates, "shard_group_size ", group, ": expected a hybrid strategy (",
                       dist::names_of_strategies(true), "), got ", dist::name_of(config->strategy));
  require<ConfigError>(group == 0 || ranks % group == 0, "shard_group_size ", group,
                       ": expected a divisor of the ", ranks, " ranks");
}

}  // namespace tessera::training
