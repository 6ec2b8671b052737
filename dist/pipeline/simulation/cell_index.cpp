#include "dist/pipeline/simulation/cell_index.h"

#include "dist/pipeline/simulation/execution.h"
#include "tensor/error.h"

namespace tessera::dist {
namespace {

void check_extents(const PipelineSchedule& s) {
  require<ConfigError>(s.stages >= 1 && s.micro_batches >= 1, "schedule '", s.name,
                       "': expected stages and micro-batches, got ", s.stages, " and ", s.micro_batches);
  require<ConfigError>(s.stage_ranks.size() == static_cast<size_t>(s.stages), "schedule '", s.name,
                       "': expected the ranks of ", s.stages, " stages, got ", s.stage_ranks.size());
  for (int stage = 0; stage < s.stages; ++stage) {
    const int rank = s.stage_ranks[static_cast<size_t>(stage)];
    require<ConfigError>(rank >= 0 && rank < s.ranks(), "schedule '", s.name, "': stage ", stage,
                         " is on rank ", rank, ", of ", s.ranks(), " ranks");
  }
}

}  // namespace

CellIndex::CellIndex(const PipelineSchedule& s) {
  check_extents(s);
  for (int rank = 0; rank < s.ranks(); ++rank) {
    const auto& row = s.rows[static_cast<size_t>(rank)];
    for (size_t slot = 0; slot < row.size(); ++slot) {
      if (!row[slot]) continue;
      const PipelineAction& action = *row[slot];
      if (action.stage < 0 || action.stage >= s.stages)
        refuse_cell(s, rank, slot, "expected a stage below ", s.stages);
      const int holder = s.stage_ranks[static_cast<size_t>(action.stage)];
      if (holder != rank) refuse_cell(s, rank, slot, "stage ", action.stage, " is on rank ", holder);
      if (!has_micro_batch(action.kind)) continue;
      if (action.micro_batch < 0 || action.micro_batch >= s.micro_batches)
        refuse_cell(s, rank, slot, "expected a micro-batch below ", s.micro_batches);
      const auto [place, is_new] = slots_.emplace(key(action), static_cast<int>(slot));
      if (!is_new) refuse_cell(s, rank, slot, "the action is in slot ", place->second, " too");
    }
  }
}

uint64_t CellIndex::key(const PipelineAction& action) {
  return static_cast<uint64_t>(action.kind) << 61 ^ static_cast<uint64_t>(action.stage) << 31 ^
         static_cast<uint64_t>(action.micro_batch);
}

}  // namespace tessera::dist
