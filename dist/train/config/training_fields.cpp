#include "dist/train/config/training_fields.h"

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

const FieldTable<TrainingConfig>& training_fields() {
  constexpr Limits count{.low = 0, .high = 0x1p53}, positive{.low = 1, .high = 0x1p53},
      limit_or_none{.low = -1, .high = 0x1p53}, not_negative{.low = 0};
  constexpr auto same = OnResume::same, may_differ = OnResume::may_differ;
  static const FieldTable<TrainingConfig> table{
      {{"max_epochs", "passes over the training data; -1: no limit", "epochs", limit_or_none, may_differ},
       [](Config& c) { return &c.max_epochs; }},
      {{"max_steps", "steps of the optimizer; -1: no limit", "steps", limit_or_none, may_differ},
       [](Config& c) { return &c.max_steps; }},
      {{"train_batch_size", "samples of a step, of all ranks and micro-batches; 0: derived", "samples", count,
        same},
       [](Config& c) { return &c.train_batch_size; }},
      {{"micro_batch_size", "samples that a rank computes at once; 0: derived", "samples", count, may_differ},
       [](Config& c) { return &c.micro_batch_size; }},
      {{"accumulation_steps", "micro-batches of a step on each rank; 0: derived", "micro-batches", count,
        may_differ},
       [](Config& c) { return &c.accumulation_steps; }},
      {{"gradient_clip", "largest norm of all gradients together; 0: no clipping", "", not_negative, same},
       [](Config& c) { return &c.gradient_clip; }},
      {{"precision", "dtype of forward and backward", "", {}, may_differ},
       [](Config& c) { return ChoicePointer(&c.precision, precision_names()); }},
      {{"loss_scale", "constant loss scale of precision 16; 0: a dynamic one", "", not_negative, may_differ},
       [](Config& c) { return &c.scaler.loss_scale; }},
      {{"initial_scale_power",
        "a dynamic loss scale starts at 2 to this power",
        "",
        {.low = 0, .high = 127},
        same},
       [](Config& c) { return &c.scaler.initial_scale_power; }},
      {{"loss_scale_window", "good steps in a row after which the loss scale doubles", "steps", positive,
        may_differ},
       [](Config& c) { return &c.scaler.loss_scale_window; }},
      {{"hysteresis",
        "overflows until the loss scale halves",
        "overflows",
        {.low = 1, .high = 1 << 20},
        may_differ},
       [](Config& c) { return &c.scaler.hysteresis; }},
      {{"consecutive_hysteresis", "every good step resets the count of overflows", "", {}, may_differ},
       [](Config& c) { return &c.scaler.consecutive_hysteresis; }},
      {{"min_loss_scale", "lowest dynamic loss scale", "", not_negative, may_differ},
       [](Config& c) { return &c.scaler.min_loss_scale; }},
      {{"strategy", "what is sharded over ranks", "", {}, OnResume::not_saved},
       [](Config& c) { return ChoicePointer(&c.strategy, strategy_names()); }},
      {{"shard_group_size",
        "ranks that hold one copy of the model together, for the hybrid strategies; 0: all",
        "ranks",
        {.low = 0, .high = 1 << 20}},
       [](Config& c) { return &c.shard_group_size; }},
      {{"reduce_bucket_size", "most elements of a message that reduces gradients", "elements", positive},
       [](Config& c) { return &c.reduce_bucket_size; }},
      {{"gather_bucket_size", "most elements of a message that gathers parameters", "elements", positive},
       [](Config& c) { return &c.gather_bucket_size; }},
      {{"prefetch_bucket_size", "most elements that are gathered ahead of their use; 0: none", "elements",
        count},
       [](Config& c) { return &c.prefetch_bucket_size; }},
      {{"overlap_communication", "backward computes while messages are in flight; false: it waits for each"},
       [](Config& c) { return &c.overlap_communication; }},
      {{"reduce_scatter", "gradients are reduced by reduce_scatter; false: by all_reduce, twice the bytes"},
       [](Config& c) { return &c.reduce_scatter; }},
      {{"gather_partitions",
        "updated parameters are gathered by all_gather; false: by a broadcast from each rank"},
       [](Config& c) { return &c.gather_partitions; }},
      {{"backward_prefetch", "when backward gathers the next unit's parameters"},
       [](Config& c) { return ChoicePointer(&c.backward_prefetch, prefetch_names()); }},
      {{"accumulate_communication",
        "gradients are summed over ranks after each micro-batch: more traffic, less memory"},
       [](Config& c) { return &c.accumulate_communication; }},
      {{"timeout",
        "time that a rank may keep others waiting before it counts as lost",
        "seconds",
        {.low = 0.001, .high = 1e9}},
       [](Config& c) { return &c.timeout; }},
      {{"seed", "of first weights, batches and dropout", "", {.low = 0}, same},
       [](Config& c) { return &c.seed; }},
      {{"out", "folder of the checkpoints; empty: none are written"}, [](Config& c) { return &c.out; }},
      {{"resume", "checkpoint or run to resume: a folder, or 'latest' in the folder of this run"},
       [](Config& c) { return &c.resume; }},
      {{"checkpoint_interval", "steps between checkpoints; 0: only the last step's", "steps", count},
       [](Config& c) { return &c.checkpoint_interval; }},
      {{"keep", "newest checkpoints kept, besides the best one", "checkpoints", positive},
       [](Config& c) { return &c.keep; }},
      {{"async_save", "a checkpoint is copied, then written while the next steps run"},
       [](Config& c) { return &c.async_save; }},
      {{"validate_interval", "steps between validations; 0: at the end of each epoch", "steps", count},
       [](Config& c) { return &c.validate_interval; }},
      {{"log_interval", "steps between lines of progress, with throughput and memory; 0: none", "steps",
        count},
       [](Config& c) { return &c.log_interval; }},
      {{"wall_clock_breakdown", "lines of progress give the times of forward, backward and step"},
       [](Config& c) { return &c.wall_clock_breakdown; }},
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
