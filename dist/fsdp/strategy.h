#pragma once

#include <string>
#include <string_view>

namespace tessera::dist {

/// Which of parameters, gradients and optimizer state are sharded, between and during steps: the stages of
/// ZeRO (Rajbhandari et al. 2020) and the strategies of FSDP (Zhao et al. 2023).
enum class Strategy {
  no_shard,       ///< DDP: nothing is sharded, gradients are all-reduced
  shard_optim,    ///< ZeRO-1: the optimizer and its state are sharded
  shard_grad_op,  ///< ZeRO-2: all sharded between steps, parameters gathered once for forward and backward
  full_shard,     ///< ZeRO-3: all sharded, parameters gathered for each forward and each backward of a unit
  hybrid_shard,   ///< full_shard inside groups of ranks, replicated across them
  hybrid_shard_zero2  ///< shard_grad_op inside groups of ranks, replicated across them
};
/// All strategies, in the order of the enumeration.
inline constexpr Strategy strategies[] = {Strategy::no_shard,      Strategy::shard_optim,
                                          Strategy::shard_grad_op, Strategy::full_shard,
                                          Strategy::hybrid_shard,  Strategy::hybrid_shard_zero2};

/// A row of the table that describes each strategy.
struct StrategyTraits {
  bool shards_parameters;    ///< between steps a rank holds only its shard; else the full parameters
  bool frees_after_forward;  ///< parameters are freed after a unit's forward and gathered for its backward
  bool shards_optimizer;     ///< a rank updates only its shard and keeps optimizer state only for it
  bool shards_gradients;     ///< a unit's gradient is reduced to a shard as soon as it is complete
  bool replicates;           ///< several groups hold the shards: may use a mesh dimension "replica"
};
/// The strategy's row of that table; all false for no_shard.
StrategyTraits traits_of(Strategy strategy);

/// "full_shard".
/// @{
const char* name_of(Strategy strategy);
inline std::string to_string(Strategy strategy) {
  return name_of(strategy);
}
/// @}
/// The inverse of `name_of`. Throws ConfigError listing the names.
Strategy parse_strategy(std::string_view name);

}  // namespace tessera::dist
