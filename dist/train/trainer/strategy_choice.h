#pragma once  // not in tessera.h

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "dist/train/config/training_config.h"
#include "dist/train/deepspeed/reports.h"
#include "dist/train/engine/initialize.h"
#include "dist/train/manual/part.h"

namespace tessera::training {

namespace deepspeed {
struct Configuration;
}

/// Sharding with all its options, which are those of TrainingConfig with the same names:
///
///     training::Trainer trainer({.max_epochs = 5,
///                                .strategy = training::ShardingStrategy{.reduce_bucket_size = 1'000'000},
///                                .world = &world});
struct ShardingStrategy {
  dist::Strategy strategy = dist::Strategy::full_shard;  ///< what is sharded over ranks
  int shard_group_size = 0;                   ///< ranks that hold one copy of the model together; 0: all
  int64_t reduce_bucket_size = 500'000'000;   ///< elements of a message that reduces gradients, at most
  int64_t gather_bucket_size = 500'000'000;   ///< elements of a message that gathers parameters, at most
  int64_t prefetch_bucket_size = 50'000'000;  ///< elements that are gathered ahead of their use, at most
  bool overlap_communication = true;          ///< backward computes while messages are in flight
  bool reduce_scatter = true;                 ///< else gradients are summed by all_reduce
  bool gather_partitions = true;              ///< updated parameters by all_gather, else by broadcasts
  dist::BackwardPrefetch backward_prefetch = dist::BackwardPrefetch::pre;  ///< when backward gathers
  bool accumulate_communication = false;  ///< gradients are summed over ranks after each micro-batch
};

/// A configuration of DeepSpeed for the run of a Trainer: stage and messages, precision, clipping and
/// accumulation; optimizer and schedule where the task has none. Keys that it lacks, and its "auto", are the
/// options of the Trainer and the loader's batch size. An option of the Trainer that differs from the
/// configuration is an error, unless it has its default; so is a loader with another micro-batch.
struct DeepSpeedStrategy {
  std::variant<std::string, JsonText> config;  ///< the path of a file, or its text
  /// `precision`, `accumulate`, `gradient_clip` and those of the loss scale, where a flag or a file of the
  /// program gives them, with the place ("flag --accumulate"): what differs from the configuration is an
  /// error also where it is the default.
  std::map<std::string, std::string> asked = {};
};

/// What `TrainerOptions::strategy` takes: a name, or a strategy with options.
class StrategyChoice {
 public:
  /// "auto" (no_shard), "ddp" (no_shard), "fsdp" (full_shard), "deepspeed_stage_0" to "deepspeed_stage_3", or
  /// the name of a dist::Strategy. A wrong one is an error of `apply`.
  /// @{
  StrategyChoice(const char* name) : choice_(std::string(name)) {}
  StrategyChoice(std::string name) : choice_(std::move(name)) {}
  /// @}
  /// A strategy with options.
  /// @{
  StrategyChoice(ShardingStrategy sharding) : choice_(sharding) {}
  StrategyChoice(DeepSpeedStrategy deepspeed) : choice_(std::move(deepspeed)) {}
  /// @}

  /// The name as given, that of the dist::Strategy, or the configuration's path; of a text "the
  /// configuration".
  std::string name() const;
  /// Sets in `config` what the choice says of a run on so many ranks. The other values are the program's: a
  /// micro_batch_size of 0 and accumulation_steps of 1 are left open, so that a configuration of DeepSpeed
  /// decides. Returns that configuration; null without one. Throws ConfigError for an unknown name, for
  /// options out of range, for groups that do not divide the ranks, as `deepspeed::read`, and, naming both,
  /// where the program and the configuration differ.
  std::shared_ptr<const deepspeed::Configuration> apply(TrainingConfig& config, int64_t ranks) const;
  /// Adds to `DeepSpeedStrategy::asked`; nothing for other choices.
  void add_asked(std::map<std::string, std::string> asked);
  /// The configuration of a DeepSpeedStrategy as read from its file or text; nothing for other choices.
  /// Throws ConfigError as `JsonDocument::read`.
  std::optional<JsonDocument> document() const;
  /// What a configuration of DeepSpeed asks the run to print and to write; nothing for other choices. The
  /// Trainer does none of it by itself: `add_deepspeed_reports`. Throws as `deepspeed::reports_of`.
  deepspeed::Reports reports() const;

 private:
  std::variant<std::string, ShardingStrategy, DeepSpeedStrategy> choice_;
};

/// A task's optimizer and schedule, or in place of one that is missing that which the configuration names,
/// if it is not null. "auto" of a schedule is `steps`, the number of all steps. Throws ConfigError for what
/// both give, and where there is no optimizer.
OptimizerSetup with_named(OptimizerSetup setup, const deepspeed::Configuration* configuration,
                          const ParameterList& parameters, int64_t steps);

}  // namespace tessera::training
