#pragma once  // not in tessera.h

#include <cstdint>

#include "dist/train/config/field_table.h"
#include "dist/train/config/training_config.h"

namespace tessera::training {

/// The names of dtypes of computation, of strategies, of the moments when backward gathers and of schedules
/// of a pipeline, for tables of fields.
/// @{
std::span<const ChoiceName> precision_names();
std::span<const ChoiceName> strategy_names();
std::span<const ChoiceName> prefetch_names();
std::span<const ChoiceName> schedule_names();
/// @}

/// The fields of TrainingConfig by name.
const FieldTable<TrainingConfig>& training_fields();

/// The three sizes of a step.
struct BatchSizes {
  /// Samples of a step, samples that a rank computes at once, and micro-batches of a step on each rank.
  /// @{
  int64_t train_batch_size, micro_batch_size, accumulation_steps;
  /// @}
};

/// DeepSpeed's batch equation: train_batch_size = micro_batch_size * accumulation_steps * ranks. Sizes of 0
/// are derived: any two give the third; train_batch_size alone is one micro-batch a rank, micro_batch_size
/// alone a step of one micro-batch. Throws ConfigError, with the numbers, where none is given, where they
/// contradict each other, and for fewer samples than ranks.
BatchSizes resolve_batch_sizes(const BatchSizes& given, int64_t ranks);

/// Fills the sizes of a configuration that are 0, with the rule as their origin. Throws as
/// `resolve_batch_sizes`, and for values that contradict each other.
void resolve(Resolved<TrainingConfig>& config, int64_t ranks);

}  // namespace tessera::training
