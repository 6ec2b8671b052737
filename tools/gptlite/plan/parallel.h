#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>

#include "dist/fsdp/shard.h"
#include "tools/gptlite/options.h"

namespace tessera::gptlite {

/// What the units of sharding are: every block, subtrees of a smallest size, or the root alone.
struct AutoWrap {
  enum class Kind : uint8_t { block, size, none };
  Kind kind = Kind::block;
  int64_t elements = 0;  ///< for `size`: fewest elements of a subtree
};

/// How a run is distributed over ranks. It changes values by rounding alone, so checkpoints do not contain
/// it.
struct Parallel {
  int world_size = 1;
  std::string launcher;  ///< "mpirun", ...; empty: ranks are threads of this process
  /// Whether the model is sharded: with several ranks, or with a strategy given.
  bool is_sharded = false;
  dist::Strategy strategy = dist::Strategy::full_shard;
  int shard_group_size = 1;  ///< ranks along the mesh's dimension "shard"; the others along "replica"
  AutoWrap auto_wrap = {};
  int64_t bucket_bytes = 25 << 20;
  dist::BackwardPrefetch backward_prefetch = dist::BackwardPrefetch::pre;
  bool accumulate_communication = false;
  std::chrono::milliseconds timeout{300'000};

  int replicas() const { return world_size / shard_group_size; }
};

/// Combines flags and the launcher's job. Throws ConfigError for values out of range and contradictions,
/// naming what was expected and what was given.
Parallel resolve_parallel(const ParallelFlags& flags, const std::set<std::string>& given);

/// "block", "size:100000" or "none".
std::string to_string(const AutoWrap& policy);
/// "pre", "post" or "none".
std::string to_string(dist::BackwardPrefetch prefetch);

}  // namespace tessera::gptlite
