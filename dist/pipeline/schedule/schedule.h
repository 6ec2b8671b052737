#pragma once  // not in tessera.h

#include <optional>
#include <string>
#include <vector>

#include "dist/pipeline/schedule/action.h"

namespace tessera::dist {

/// A cell of a schedule: an action, or nothing where the rank is idle.
using ScheduleCell = std::optional<PipelineAction>;

/// What each rank of a pipeline does, in order: a table with a row for each rank and a column for each slot.
/// Each rank runs the actions of its row in order; an action waits for its inputs, so a slot states no time.
struct PipelineSchedule {
  std::string name;                                  ///< in messages: "1f1b", or the name of a file
  int stages = 0;                                    ///< stages of the model: ranks x chunks
  int micro_batches = 0;                             ///< micro-batches of a step
  std::vector<int> stage_ranks = {};                 ///< the rank that holds each stage
  std::vector<std::vector<ScheduleCell>> rows = {};  ///< cells by rank, then slot

  /// Ranks of the pipeline.
  int ranks() const { return static_cast<int>(rows.size()); }
  /// Slots of the longest row.
  int slots() const;
  /// Which of its rank's stages a stage is, in the model's order: 0 where each rank holds one.
  int chunk_of(int stage) const;
  /// The largest number of stages that a rank holds.
  int chunks() const;
  /// The actions of a rank without idle cells.
  std::vector<PipelineAction> actions(int rank) const;
};

/// The rank of each of `ranks x chunks` stages where stage i is on rank i mod `ranks`: Megatron's
/// interleaving (Narayanan et al. 2021).
std::vector<int> looped_stage_ranks(int ranks, int chunks);
/// The rank of each stage where every other pass through the ranks is backwards: 0, 1, 2, 2, 1, 0. The last
/// stage of two chunks is on the first rank (Qi et al. 2023).
std::vector<int> v_stage_ranks(int ranks, int chunks);

}  // namespace tessera::dist
