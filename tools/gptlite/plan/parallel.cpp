#include "tools/gptlite/plan/parallel.h"

#include <charconv>

#include "tensor/error.h"

namespace tessera::gptlite {
namespace {

using dist::BackwardPrefetch;
using dist::Strategy;

Strategy parse_strategy(const std::string& name) {
  try {
    return dist::parse_strategy(name);
  } catch (const ConfigError& error) {
    throw ConfigError(text("--", error.what()));
  }
}

AutoWrap parse_auto_wrap(const std::string& policy) {
  using Kind = AutoWrap::Kind;
  if (policy == "block") return {Kind::block, 0};
  if (policy == "none") return {Kind::none, 0};
  AutoWrap by_size{Kind::size, 0};
  const std::string prefix = "size:";
  const char* end = policy.data() + policy.size();
  const bool has_prefix = policy.rfind(prefix, 0) == 0;
  const auto [rest, error] =
      std::from_chars(policy.data() + (has_prefix ? prefix.size() : policy.size()), end, by_size.elements);
  require<ConfigError>(has_prefix && error == std::errc() && rest == end && by_size.elements >= 1,
                       "--auto-wrap '", policy,
                       "': expected block, none, or size:N with at least N parameters a unit");
  return by_size;
}

BackwardPrefetch parse_prefetch(const std::string& name) {
  if (name == "pre") return BackwardPrefetch::pre;
  if (name == "post") return BackwardPrefetch::post;
  require<ConfigError>(name == "none", "--backward-prefetch '", name, "': expected pre, post or none");
  return BackwardPrefetch::none;
}

int world_size_of(const ParallelFlags& flags) {
  const dist::LauncherJob& job = flags.job;
  if (!flags.virtual_ranks) return job.size;
  const int ranks = *flags.virtual_ranks;
  require<ConfigError>(ranks >= 1 && ranks <= 1024, "--virtual-ranks ", ranks, ": expected 1 to 1024");
  require<ConfigError>(job.launcher.empty(), "--virtual-ranks ", ranks, " under ", job.launcher,
                       ", which started ", job.size,
                       " processes: ranks are either threads of one process or processes");
  return ranks;
}

int shard_group_of(const ParallelFlags& flags, Strategy strategy, int world) {
  const char* name = name_of(strategy);
  if (!dist::traits_of(strategy).replicates) {
    require<ConfigError>(!flags.shard_group_size, "--shard-group-size ", flags.shard_group_size.value_or(0),
                         " with --strategy ", name, ": ranks are divided into groups by ",
                         dist::names_of_strategies(true));
    return world;
  }
  require<ConfigError>(flags.shard_group_size.has_value(), "--strategy ", name,
                       " needs `--shard-group-size N`: the ranks that hold one copy of the model together, "
                       "usually those of one machine");
  const int size = *flags.shard_group_size;
  require<ConfigError>(size >= 1 && size <= world && world % size == 0, "--shard-group-size ", size,
                       ": expected a divisor of the number of ranks, ", world);
  return size;
}

}  // namespace

Parallel resolve_parallel(const ParallelFlags& flags, const std::set<std::string>& given) {
  Parallel p;
  p.world_size = world_size_of(flags);
  p.launcher = flags.job.launcher;
  p.is_sharded = p.world_size > 1 || flags.strategy.has_value();
  if (flags.strategy) p.strategy = parse_strategy(*flags.strategy);
  p.auto_wrap = parse_auto_wrap(flags.auto_wrap);
  p.backward_prefetch = parse_prefetch(flags.backward_prefetch);
  p.bucket_bytes = flags.bucket_bytes;
  p.accumulate_communication = flags.accumulate_communication;
  constexpr double longest = 1e6;
  require<ConfigError>(p.bucket_bytes >= 1, "--bucket-bytes ", p.bucket_bytes, ": expected 1 or more");
  require<ConfigError>(flags.timeout > 0 && flags.timeout <= longest, "--timeout ", flags.timeout,
                       ": expected seconds, more than 0 and at most ", longest);
  p.timeout = std::chrono::milliseconds(static_cast<int64_t>(1000 * flags.timeout));
  for (const char* flag :
       {"auto-wrap", "backward-prefetch", "bucket-bytes", "accumulate-communication", "shard-group-size"})
    require<ConfigError>(p.is_sharded || !given.contains(flag), "--", flag,
                         " is about sharding, and this run has one rank and no `--strategy`");
  p.shard_group_size = shard_group_of(flags, p.strategy, p.world_size);
  return p;
}

std::string to_string(const AutoWrap& policy) {
  switch (policy.kind) {
    case AutoWrap::Kind::block:
      return "block";
    case AutoWrap::Kind::size:
      return text("size:", policy.elements);
    case AutoWrap::Kind::none:
      break;
  }
  return "none";
}

std::string to_string(dist::BackwardPrefetch prefetch) {
  using dist::BackwardPrefetch;
  if (prefetch == BackwardPrefetch::none) return "none";
  return prefetch == BackwardPrefetch::pre ? "pre" : "post";
}

}  // namespace tessera::gptlite
