#include "dist/fsdp/strategy.h"

#include <algorithm>
#include <iterator>

#include "tensor/error.h"

namespace tessera::dist {
namespace {

const StrategyRow& row_of(Strategy strategy) {
  return *std::find_if(std::begin(strategy_table), std::end(strategy_table),
                       [strategy](const StrategyRow& row) { return row.strategy == strategy; });
}

}  // namespace

StrategyTraits traits_of(Strategy strategy) {
  return row_of(strategy).traits;
}

const char* name_of(Strategy strategy) {
  return row_of(strategy).name;
}

TrafficFactors traffic_factors(const StrategyTraits& traits, bool reduces_by_all_reduce) {
  const int reduced = reduces_by_all_reduce ? 2 : 1;
  if (traits.frees_after_forward) return {.gathered = 2, .root = -1, .reduced = reduced};
  if (traits.shards_optimizer) return {.gathered = 1, .reduced = reduced};
  return {.reduced = 2};
}

std::string describe_strategies() {
  std::string all;
  for (const StrategyRow& row : strategy_table)
    all += text(all.empty() ? "" : ", ", row.name, " (", row.shards, ")");
  return all;
}

std::string names_of_strategies(bool replicating) {
  std::string names;
  for (const StrategyRow& row : strategy_table)
    if (row.traits.replicates == replicating) names += text(names.empty() ? "" : ", ", row.name);
  if (const size_t last = names.rfind(", "); last != std::string::npos) names.replace(last, 2, " or ");
  return names;
}

Strategy parse_strategy(std::string_view name) {
  std::string known;
  for (const StrategyRow& row : strategy_table) {
    if (name == row.name) return row.strategy;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw ConfigError(text("strategy: expected one of ", known, "; got '", name, "'"));
}

}  // namespace tessera::dist
