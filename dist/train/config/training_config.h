#pragma once  // not in tessera.h

#include <cstdint>
#include <string>

#include "dist/fsdp/shard.h"
#include "dist/fsdp/strategy.h"
#include "dist/train/config/stage_options.h"
#include "optim/grad_scaler.h"

namespace tessera::training {

/// The dtype of forward and backward. The optimizer's values and state are f32.
enum class PrecisionMode {
  f32,   ///< "32"
  f16,   ///< "16": with loss scaling (Micikevicius et al. 2018)
  bf16,  ///< "bf16": f32's range, without loss scaling
};

/// The options of a step of any model, on one rank or many: those of an Engine. A size of 0 is derived from
/// the others (`resolve_batch_sizes`).
struct TrainingConfig {
  int64_t max_steps = -1;  ///< steps of the whole run, for the "auto" of a schedule; -1: not known

  int64_t train_batch_size = 0;    ///< samples of a step, of all ranks and micro-batches
  int64_t micro_batch_size = 0;    ///< samples that a rank computes at once
  int64_t accumulation_steps = 0;  ///< micro-batches of a step on each rank

  double gradient_clip = 0;                      ///< largest norm of all gradients; 0: no clipping
  PrecisionMode precision = PrecisionMode::f32;  ///< of forward and backward
  optim::GradScalerOptions scaler = {};          ///< of f16

  dist::Strategy strategy = dist::Strategy::no_shard;  ///< what is sharded over ranks
  int shard_group_size = 0;                   ///< ranks that hold one copy of the model together; 0: all
  int64_t reduce_bucket_size = 500'000'000;   ///< elements of a message that reduces gradients, at most
  int64_t gather_bucket_size = 500'000'000;   ///< elements of a message that gathers parameters, at most
  int64_t prefetch_bucket_size = 50'000'000;  ///< elements that are gathered ahead of their use, at most
  bool overlap_communication = true;          ///< backward computes while messages are in flight
  bool reduce_scatter = true;                 ///< else gradients are summed by all_reduce
  bool gather_partitions = true;              ///< updated parameters by all_gather, else by broadcasts
  dist::BackwardPrefetch backward_prefetch = dist::BackwardPrefetch::pre;  ///< when backward gathers
  bool accumulate_communication = false;  ///< gradients are summed over ranks after each micro-batch

  /// Training in stages, of a model that is a list of layers; and the interval of activation checkpointing.
  StageOptions stages = {};

  /// Modules of which the calls are run again in backward: a regular expression on kinds and names
  /// (`nn::checkpoint_matching`); empty: none. It adds to the interval.
  std::string activation_checkpoint = {};
  /// Operations within these, and within the layers of the interval, of which the results are kept: names
  /// with commas between them (CheckpointOptions::keep).
  std::string activation_checkpoint_keep = {};
  /// Where the inputs of checkpointed segments are until backward: empty, where they were; "cpu", the CPU's
  /// memory, counted apart (HostStore); or the folder of a file (FileStore).
  std::string activation_offload = {};
  int64_t activation_offload_bytes = 0;  ///< of "cpu", at most; 0: no limit

  uint64_t seed = 42;  ///< of first weights, batches and dropout
};

}  // namespace tessera::training
