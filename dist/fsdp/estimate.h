#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dist/fsdp/policy.h"
#include "dist/fsdp/shard.h"
#include "dist/fsdp/strategy.h"

/// The cost of a strategy, by formula and before anything runs: the bytes that a rank holds, and those that
/// it sends in a step.
namespace tessera::dist {

/// Options of `estimate`: the sharding, and the step.
struct EstimateOptions {
  Strategy strategy = Strategy::full_shard;  ///< the strategy to estimate
  int shards = 1;                            ///< ranks along the mesh's dimension "shard"
  int replicas = 1;                          ///< along "replica"
  int shard = 0;                             ///< the rank's index along "shard"
  /// Of gathered parameters, and of the gradients that are sent.
  /// @{
  DType compute = f32, reduce = f32;
  /// @}
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;  ///< as in ShardOptions
  int64_t alignment = 16;                                      ///< as in ShardOptions
  MessageOptions messages = {};                                ///< as in ShardOptions
  int64_t micro_batches = 1;                                   ///< of a step
  /// Gradients are reduced after each micro-batch, instead of once a step.
  bool accumulate_communication = false;
  /// Optimizer state per trained element, in bytes: Adam's two means in f32.
  int64_t optimizer_bytes = 8;
};

/// A unit before it is sharded: what an estimate is made from.
struct UnitSizes {
  /// A parameter of it.
  struct Parameter {
    int64_t elements = 0;    ///< of the whole parameter
    DType dtype = f32;       ///< as declared
    bool is_trained = true;  ///< whether it has a gradient
  };
  std::string name;                        ///< "blocks.3"; "root"
  std::vector<Parameter> parameters = {};  ///< in module order, each once
};

/// Numbers of elements of a unit.
struct UnitEstimate {
  std::string name;            ///< "blocks.3"; "root"
  int64_t parameters = 0;      ///< as declared, without padding
  int64_t padded = 0;          ///< all shards together
  int64_t padded_trained = 0;  ///< the same of trained parameters
  int64_t held_trained = 0;    ///< trained elements that this rank's optimizer changes
};

/// Bytes by memory category.
struct StateBytes {
  /// In the category of this name.
  /// @{
  int64_t parameter = 0, gradient = 0, optimizer_state = 0, communication = 0;
  /// @}
  /// The sum of the four.
  int64_t total() const { return parameter + gradient + optimizer_state + communication; }
};

/// Bytes that a rank sends in a step, by purpose. Scalars (norms, losses) are not counted.
struct StepTraffic {
  /// To gather parameters, and to reduce gradients.
  /// @{
  int64_t parameters = 0, gradients = 0;
  /// @}
  /// The sum of both.
  int64_t total() const { return parameters + gradients; }
};

/// The cost of a strategy for a model, on one rank.
struct Estimate {
  std::vector<UnitEstimate> units;  ///< the root first
  /// Model state: memory held while a step's gradients exist, before and after the optimizer uses them. For P
  /// parameters, N shards, Adam and f32: no_shard 16P; shard_optim 8P + 8P/N; the others 16P/N. In mixed
  /// precision no_shard has 18P and shard_optim 6P + 12P/N. With `accumulate_communication` these two keep
  /// the reduced gradients of earlier micro-batches in memory of their own: another 4P, or 4P/N.
  StateBytes state;
  /// The most temporary memory during a step, besides activations: gathered parameters, and gradients that
  /// are not reduced yet.
  StateBytes temporary;
  /// Of every step except the first, which may begin with gathered parameters. For G bytes of gathered
  /// parameters, G0 of the root's, R of gradients, f = (N - 1)/N and A micro-batches: no_shard 2R f;
  /// shard_optim and shard_grad_op (G + R) f; full_shard (A (2G - G0) + R) f; the hybrid ones also 2 R/N (m -
  /// 1)/m for m replicas. With `accumulate_communication` R counts A times.
  StepTraffic traffic;
};

/// Reads only the names, shapes and dtypes of a module's parameters: on meta it costs nothing. Throws
/// ConfigError for options out of range.
Estimate estimate(nn::Module& module, const UnitPolicy& units, const EstimateOptions& options);
/// The same from sizes alone, the root first.
Estimate estimate(const std::vector<UnitSizes>& units, const EstimateOptions& options);

}  // namespace tessera::dist
