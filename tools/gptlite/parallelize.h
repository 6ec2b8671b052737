#pragma once

#include "dist/fsdp/shard.h"
#include "models/gpt.h"
#include "tools/gptlite/ranks.h"
#include "tools/gptlite/run.h"

namespace tessera::gptlite {

/// The units that `--auto-wrap` asks for.
dist::UnitPolicy unit_policy(const AutoWrap& policy);

/// The ranks as a box: shard groups of neighbours, side by side for the hybrid strategies. Ranks call it
/// together.
dist::Mesh make_mesh(const Parallel& parallel, dist::World& world);

/// A model as one rank holds it: whole, or what its strategy leaves to the rank. Its first numbers are made
/// in place, so no rank ever holds more.
class ParallelModel {
 public:
  /// Ranks construct together.
  ParallelModel(const Run& run, const Ranks& ranks, Device device);
  ParallelModel(const ParallelModel&) = delete;
  ParallelModel& operator=(const ParallelModel&) = delete;

  models::Gpt& gpt() { return gpt_; }
  /// Null for a model that is whole.
  dist::Sharding* sharding() const { return sharding_; }

 private:
  models::Gpt gpt_;
  dist::Sharding* sharding_ = nullptr;
};

}  // namespace tessera::gptlite
