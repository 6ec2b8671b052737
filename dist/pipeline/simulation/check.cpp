#include "dist/pipeline/simulation/check.h"

#include <algorithm>

#include "dist/pipeline/simulation/cell_index.h"
#include "dist/pipeline/simulation/execution.h"
#include "dist/pipeline/simulation/messages.h"
#include "tensor/error.h"

namespace tessera::dist {

using enum ActionKind;

namespace {

using Cells = const std::vector<ScheduleCell>&;

/// Whether activations of a micro-batch are freed by the action: W of a split backward, else B.
bool frees(const PipelineAction& action) {
  return action.kind == backward || action.kind == backward_weight;
}

/// Of one stage and micro-batch: the forward, then the backward or its two halves.
void check_micro_batch(const PipelineSchedule& s, const CellIndex& cells, int stage, int m) {
  const int rank = s.stage_ranks[static_cast<size_t>(stage)];
  const auto action = [&](ActionKind kind) { return PipelineAction{kind, stage, m}; };
  const auto slot = [&](ActionKind kind) { return cells.slot(action(kind)); };
  const auto refuse = [&](ActionKind kind, const auto&... reason) {
    refuse_cell(s, rank, static_cast<size_t>(slot(kind)), reason...);
  };
  const int f = slot(forward), b = slot(backward), i = slot(backward_input), w = slot(backward_weight);
  if (f < 0) {
    for (const ActionKind kind : {backward, backward_input, backward_weight})
      if (slot(kind) >= 0) refuse(kind, "the schedule has no forward ", action(forward));
    throw ConfigError(text("schedule '", s.name, "': rank ", rank, ": no forward ", action(forward)));
  }
  if (b < 0 && i < 0 && w < 0) refuse(forward, "micro-batch ", m, " has no backward through stage ", stage);
  if (b >= 0 && (i >= 0 || w >= 0))
    refuse(i >= 0 ? backward_input : backward_weight, "the whole backward ", action(backward), " is in slot ",
           b, " too");
  if (b < 0 && w < 0)
    refuse(backward_input, "the other half of the backward, ", action(backward_weight), ", is missing");
  if (b < 0 && i < 0)
    refuse(backward_weight, "the other half of the backward, ", action(backward_input), ", is missing");
  if (b >= 0 ? b < f : i < f)
    refuse(b >= 0 ? backward : backward_input, "it precedes its forward, in slot ", f);
  if (b < 0 && w < i) refuse(backward_weight, "it precedes the gradients of the inputs, in slot ", i);
}

/// What UNSHARD, RESHARD and REDUCE_GRAD have done to a stage; slots are -1 where nothing has.
struct StageState {
  int unsharded = -1;  ///< slot of the UNSHARD in effect
  int unreduced = -1;  ///< slot of the last gradient that is not reduced
};

void check_sharding_of(const PipelineSchedule& s, int rank, bool shards, bool reduces) {
  std::vector<StageState> states(static_cast<size_t>(s.stages));
  Cells row = s.rows[static_cast<size_t>(rank)];
  for (size_t slot = 0; slot < row.size(); ++slot) {
    if (!row[slot]) continue;
    const PipelineAction& action = *row[slot];
    StageState& state = states[static_cast<size_t>(action.stage)];
    if (is_compute(action.kind) && shards && state.unsharded < 0)
      refuse_cell(s, rank, slot, "the parameters of stage ", action.stage, " are not unsharded");
    if (action.kind == reshard && state.unsharded < 0)
      refuse_cell(s, rank, slot, "stage ", action.stage, " is not unsharded");
    if (action.kind == unshard && state.unsharded >= 0)
      refuse_cell(s, rank, slot, "stage ", action.stage, " is unsharded since slot ", state.unsharded);
    if (action.kind == reduce_grad && state.unreduced < 0)
      refuse_cell(s, rank, slot, "stage ", action.stage, " has no gradients that are not reduced");
    const int at = static_cast<int>(slot);
    if (action.kind == unshard) state.unsharded = at;
    if (action.kind == reshard) state.unsharded = -1;
    if (action.kind == reduce_grad) state.unreduced = -1;
    if (frees(action)) state.unreduced = at;
  }
  for (const StageState& state : states) {
    if (state.unsharded >= 0)
      refuse_cell(s, rank, static_cast<size_t>(state.unsharded), "no RESHARD follows");
    if (reduces && state.unreduced >= 0)
      refuse_cell(s, rank, static_cast<size_t>(state.unreduced), "no REDUCE_GRAD follows");
  }
}

void check_sharding(const PipelineSchedule& s) {
  const auto has = [&](ActionKind kind) {
    return std::any_of(s.rows.begin(), s.rows.end(), [&](Cells row) {
      return std::any_of(row.begin(), row.end(),
                         [&](const ScheduleCell& cell) { return cell && cell->kind == kind; });
    });
  };
  const bool shards = has(unshard), reduces = has(reduce_grad);
  for (int rank = 0; rank < s.ranks(); ++rank) check_sharding_of(s, rank, shards, reduces);
}

/// Calls `visit(slot, live)` after each cell of a rank that changes the number of live micro-batches.
template <class Visit>
void count_live(Cells row, const Visit& visit) {
  int live = 0;
  for (size_t slot = 0; slot < row.size(); ++slot) {
    if (!row[slot]) continue;
    live += row[slot]->kind == forward ? 1 : frees(*row[slot]) ? -1 : 0;
    visit(slot, live);
  }
}

void check_live(const PipelineSchedule& s, const std::vector<int>& most) {
  if (most.empty()) return;
  require<ConfigError>(most.size() == s.rows.size(), "schedule '", s.name, "': expected limits of ",
                       s.ranks(), " ranks, got ", most.size());
  for (int rank = 0; rank < s.ranks(); ++rank)
    count_live(s.rows[static_cast<size_t>(rank)], [&](size_t slot, int live) {
      const int limit = most[static_cast<size_t>(rank)];
      if (live > limit) refuse_cell(s, rank, slot, live, " micro-batches are live, of at most ", limit);
    });
}

}  // namespace

std::vector<int> peak_live_micro_batches(const PipelineSchedule& schedule) {
  std::vector<int> peaks;
  for (Cells row : schedule.rows) {
    int peak = 0;
    count_live(row, [&](size_t, int live) { peak = std::max(peak, live); });
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<int> peak_live_by_stage(const PipelineSchedule& schedule) {
  const std::vector<int> by_rank = peak_live_micro_batches(schedule);
  std::vector<int> live;
  for (const int rank : schedule.stage_ranks)
    live.push_back((by_rank[static_cast<size_t>(rank)] + schedule.chunks() - 1) / schedule.chunks());
  return live;
}

void check_schedule(const PipelineSchedule& s, const std::vector<int>& most_live) {
  const CellIndex cells(s);
  for (int stage = 0; stage < s.stages; ++stage)
    for (int m = 0; m < s.micro_batches; ++m) check_micro_batch(s, cells, stage, m);
  check_sharding(s);
  if (has_messages(s)) {
    check_messages(s, cells);
    require_complete(s, execute_rendezvous(s));
  } else {
    require_complete(s, execute(s, [](const PipelineAction&) { return 1.0; }));
  }
  check_live(s, most_live);
}

}  // namespace tessera::dist
