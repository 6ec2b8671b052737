#include "dist/fsdp/strategy.h"

#include "tensor/error.h"

namespace tessera::dist {

StrategyTraits traits_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::no_shard:
      return {};
    case Strategy::shard_optim:
      return {.shards_parameters = false,
              .frees_after_forward = false,
              .shards_optimizer = true,
              .shards_gradients = false,
              .replicates = false};
    case Strategy::shard_grad_op:
    case Strategy::hybrid_shard_zero2:
      return {.shards_parameters = true,
              .frees_after_forward = false,
              .shards_optimizer = true,
              .shards_gradients = true,
              .replicates = strategy == Strategy::hybrid_shard_zero2};
    case Strategy::full_shard:
    case Strategy::hybrid_shard:
      break;
  }
  return {.shards_parameters = true,
          .frees_after_forward = true,
          .shards_optimizer = true,
          .shards_gradients = true,
          .replicates = strategy == Strategy::hybrid_shard};
}

const char* name_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::no_shard:
      return "no_shard";
    case Strategy::shard_optim:
      return "shard_optim";
    case Strategy::shard_grad_op:
      return "shard_grad_op";
    case Strategy::full_shard:
      return "full_shard";
    case Strategy::hybrid_shard:
      return "hybrid_shard";
    case Strategy::hybrid_shard_zero2:
      return "hybrid_shard_zero2";
  }
  return "?";
}

Strategy parse_strategy(std::string_view name) {
  std::string known;
  for (const Strategy strategy : strategies) {
    if (name == name_of(strategy)) return strategy;
    known += (known.empty() ? "" : ", ") + to_string(strategy);
  }
  throw ConfigError(text("strategy: expected one of ", known, "; got '", name, "'"));
}

}  // namespace tessera::dist
