#pragma once  // internal

#include <cstdint>
#include <unordered_map>

#include "dist/pipeline/schedule/schedule.h"

namespace tessera::dist {

/// The slot of each action of a schedule that has a micro-batch. It is in the row of its stage's rank.
class CellIndex {
 public:
  /// Throws ConfigError for a stage, rank or micro-batch outside the schedule's, an action on a rank that
  /// does not hold its stage, and an action that is there twice.
  explicit CellIndex(const PipelineSchedule& schedule);

  /// The action's slot; -1 where the schedule does not have it.
  int slot(const PipelineAction& action) const {
    const auto found = slots_.find(key(action));
    return found == slots_.end() ? -1 : found->second;
  }
  bool has(const PipelineAction& action) const { return slot(action) >= 0; }

 private:
  static uint64_t key(const PipelineAction& action);

  std::unordered_map<uint64_t, int> slots_;  // of as many as there are cells, whatever the numbers in them
};

}  // namespace tessera::dist
