#pragma once

#include <string>
#include <string_view>

namespace tessera::dist {

/// Where parameters, gradients and optimizer state live between and during steps: ZeRO's stages (Rajbhandari
/// et al. 2020), FSDP's (Zhao et al. 2023).
enum class Strategy {
  no_shard,       ///< DDP: everything whole, gradients all-reduced
  shard_optim,    ///< ZeRO-1: the optimizer and its state by shard
  shard_grad_op,  ///< ZeRO-2: all by shard between steps, parameters gathered once for forward and backward
  full_shard,     ///< ZeRO-3: gathered for each forward and each backward of a unit
  hybrid_shard,   ///< full_shard inside groups of ranks, replicated across them
  hybrid_shard_zero2  ///< shard_grad_op inside groups of ranks, replicated across them
};
inline constexpr Strategy strategies[] = {Strategy::no_shard,      Strategy::shard_optim,
                                          Strategy::shard_grad_op, Strategy::full_shard,
                                          Strategy::hybrid_shard,  Strategy::hybrid_shard_zero2};

/// A row of the table that every strategy is a point of.
struct StrategyTraits {
  bool shards_parameters;  ///< between steps a rank holds its shard alone; else all of them
  bool
      frees_after_forward;  ///< gathered parameters go after a unit's forward and come again for its backward
  bool shards_optimizer;    ///< a rank updates its shard alone, and keeps state for it alone
  bool shards_gradients;    ///< a unit's gradient is reduced to a shard as soon as it is complete
  bool replicates;          ///< across groups: takes a mesh with a "replica" dimension
};
StrategyTraits traits_of(Strategy strategy);

/// "full_shard".
const char* name_of(Strategy strategy);
inline std::string to_string(Strategy strategy) {
  return name_of(strategy);
}
/// The inverse. Throws ConfigError listing the names.
Strategy parse_strategy(std::string_view name);

}  // namespace tessera::dist
