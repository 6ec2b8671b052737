#pragma once

#include <algorithm>
#include <array>
#include <iterator>
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
/// What a strategy shards, and when.
struct StrategyTraits {
  bool shards_parameters = false;  ///< between steps a rank holds only its shard; else the full parameters
  bool frees_after_forward =
      false;                      ///< parameters are freed after a unit's forward, gathered for its backward
  bool shards_optimizer = false;  ///< a rank updates only its shard and keeps optimizer state only for it
  bool shards_gradients = false;  ///< a unit's gradient is reduced to a shard as soon as it is complete
  bool reduces_in_backward = true;  ///< gradients are reduced while the backward runs; else at its end
  bool replicates = false;          ///< several groups hold the shards: may use a mesh dimension "replica"
};

/// A row of the table of strategies.
struct StrategyRow {
  Strategy strategy;      ///< the value
  const char* name;       ///< in options, files and messages
  const char* shards;     ///< what is sharded, in a few words
  StrategyTraits traits;  ///< all properties of the strategy
};
/// The table: all differences between the strategies.
inline constexpr StrategyRow strategy_table[] = {
    {Strategy::no_shard, "no_shard", "nothing: DDP", {}},
    {Strategy::shard_optim,
     "shard_optim",
     "optimizer state: ZeRO-1",
     {.shards_optimizer = true, .reduces_in_backward = false}},
    {Strategy::shard_grad_op,
     "shard_grad_op",
     "and gradients: ZeRO-2",
     {.shards_parameters = true, .shards_optimizer = true, .shards_gradients = true}},
    {Strategy::full_shard,
     "full_shard",
     "and parameters: ZeRO-3, FSDP",
     {.shards_parameters = true,
      .frees_after_forward = true,
      .shards_optimizer = true,
      .shards_gradients = true}},
    {Strategy::hybrid_shard,
     "hybrid_shard",
     "as full_shard, within groups of ranks",
     {.shards_parameters = true,
      .frees_after_forward = true,
      .shards_optimizer = true,
      .shards_gradients = true,
      .replicates = true}},
    {Strategy::hybrid_shard_zero2,
     "hybrid_shard_zero2",
     "as shard_grad_op, within groups of ranks",
     {.shards_parameters = true, .shards_optimizer = true, .shards_gradients = true, .replicates = true}},
};

/// All strategies, in the order of the table.
inline constexpr auto strategies = [] {
  std::array<Strategy, std::size(strategy_table)> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = strategy_table[i].strategy;
  return all;
}();
/// Those that shard over all ranks, without replicas.
inline constexpr auto flat_strategies = [] {
  constexpr auto is_flat = [](const StrategyRow& row) { return !row.traits.replicates; };
  constexpr auto count = std::count_if(std::begin(strategy_table), std::end(strategy_table), is_flat);
  std::array<Strategy, static_cast<size_t>(count)> flat{};
  size_t i = 0;
  for (const StrategyRow& row : strategy_table)
    if (is_flat(row)) flat[i++] = row.strategy;
  return flat;
}();

/// The strategy's row of the table.
/// @{
StrategyTraits traits_of(Strategy strategy);
const char* name_of(Strategy strategy);
inline std::string to_string(Strategy strategy) {
  return name_of(strategy);
}
/// @}
/// What a rank sends in a step with one micro-batch and one group of ranks: gathered * G + root * G0 +
/// reduced * R bytes, times (W - 1)/W, for G bytes of gathered parameters, G0 of the root's and R of
/// gradients. Parameters that are gathered by broadcasts count 1/W instead.
struct TrafficFactors {
  int gathered = 0;  ///< of G
  int root = 0;      ///< of G0: the root stays gathered from forward to backward
  int reduced = 0;   ///< of R: an all_reduce sends twice what a reduce_scatter does
};
/// The factors of a strategy with these traits. With `reduces_by_all_reduce` every strategy reduces as
/// no_shard does.
TrafficFactors traffic_factors(const StrategyTraits& traits, bool reduces_by_all_reduce = false);
/// The strategies with names and what they shard, for the help of an option: "no_shard (nothing: DDP), ...".
std::string describe_strategies();
/// The names of the strategies that replicate (or do not), as in "a, b or c".
std::string names_of_strategies(bool replicating);
/// The inverse of `name_of`. Throws ConfigError listing the names.
Strategy parse_strategy(std::string_view name);

}  // namespace tessera::dist
