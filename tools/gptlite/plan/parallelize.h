#pragma once

#include "dist/fsdp/shard.h"
#include "models/gpt.h"
#include "tools/gptlite/ranks.h"
#include "tools/gptlite/run.h"

namespace tessera::gptlite {

/// The units of `--auto-wrap`: "block", "size:N" or "none". Throws ConfigError for another form.
dist::UnitPolicy unit_policy(const std::string& auto_wrap);

/// The mesh of all ranks: one shard group, or for the hybrid strategies several groups of consecutive ranks.
/// Ranks call it together.
dist::Mesh make_mesh(const Parallel& parallel, dist::World& world);

/// A model as one rank holds it: all of it, or the rank's shards. Initial values are computed in place, so no
/// rank ever holds more.
class ParallelModel {
 public:
  /// Ranks construct together.
  ParallelModel(const Run& run, const Ranks& ranks, Device device);
  ParallelModel(const ParallelModel&) = delete;
  ParallelModel& operator=(const ParallelModel&) = delete;

  models::Gpt& gpt() { return gpt_; }
  /// Null for a model that is not sharded.
  dist::Sharding* sharding() const { return sharding_; }

 private:
  models::Gpt gpt_;
  dist::Sharding* sharding_ = nullptr;
};

}  // namespace tessera::gptlite
