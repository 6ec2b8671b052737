#include "dist/pipeline/generators/lowering.h"

#include "dist/pipeline/simulation/check.h"
#include "dist/pipeline/simulation/execution.h"
#include "dist/pipeline/simulation/messages.h"
#include "tensor/error.h"

namespace tessera::dist {

using enum ActionKind;

namespace {

/// The send of what an action computes for another rank, if any.
ScheduleCell send_of(const PipelineSchedule& s, const PipelineAction& action) {
  if (!is_compute(action.kind) || action.kind == backward_weight) return {};
  const PipelineAction send{action.kind == forward ? send_forward : send_backward, action.stage,
                            action.micro_batch};
  const int to = counterpart(send).stage;
  if (to < 0 || to >= s.stages) return {};
  const auto rank = [&](int stage) { return s.stage_ranks[static_cast<size_t>(stage)]; };
  return rank(to) == rank(action.stage) ? ScheduleCell{} : send;
}

/// The last action of each stage in a rank's actions that computes, or that computes gradients of weights; -1
/// for none.
std::vector<int> last_actions(const PipelineSchedule& s, const std::vector<PipelineAction>& row,
                              bool of_weights) {
  std::vector<int> last(static_cast<size_t>(s.stages), -1);
  for (size_t i = 0; i < row.size(); ++i)
    if (of_weights ? row[i].kind == backward || row[i].kind == backward_weight : is_compute(row[i].kind))
      last[static_cast<size_t>(row[i].stage)] = static_cast<int>(i);
  return last;
}

}  // namespace

PipelineSchedule with_messages(const PipelineSchedule& schedule) {
  require<ConfigError>(!has_messages(schedule), "schedule '", schedule.name, "': it has messages already");
  check_schedule(schedule);
  const PipelineSchedule placed = placed_in_slots(schedule);
  PipelineSchedule lowered = placed;
  for (auto& row : lowered.rows) row.clear();
  for (size_t slot = 0; slot < static_cast<size_t>(placed.slots()); ++slot) {
    for (size_t rank = 0; rank < placed.rows.size(); ++rank)
      if (slot < placed.rows[rank].size() && placed.rows[rank][slot])
        lowered.rows[rank].push_back(placed.rows[rank][slot]);
    for (size_t rank = 0; rank < placed.rows.size(); ++rank) {
      if (slot >= placed.rows[rank].size() || !placed.rows[rank][slot]) continue;
      const ScheduleCell send = send_of(placed, *placed.rows[rank][slot]);
      if (!send) continue;
      const PipelineAction receive = counterpart(*send);
      lowered.rows[rank].push_back(send);
      lowered.rows[static_cast<size_t>(placed.stage_ranks[static_cast<size_t>(receive.stage)])].push_back(
          receive);
    }
  }
  return lowered;
}

PipelineSchedule with_sharding(const PipelineSchedule& schedule, UnshardScope scope) {
  check_schedule(schedule);
  PipelineSchedule sharded = schedule;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    const std::vector<PipelineAction> row = schedule.actions(rank);
    const std::vector<int> last = last_actions(schedule, row, false),
                           last_gradient = last_actions(schedule, row, true);
    std::vector<bool> is_unsharded(static_cast<size_t>(schedule.stages));
    auto& cells = sharded.rows[static_cast<size_t>(rank)];
    cells.clear();
    for (size_t i = 0; i < row.size(); ++i) {
      require<ConfigError>(has_micro_batch(row[i].kind), "schedule '", schedule.name, "': it has ", row[i],
                           " already");
      cells.push_back(row[i]);
      if (!is_compute(row[i].kind)) continue;
      const int stage = row[i].stage;
      const auto index = static_cast<size_t>(stage);
      if (!is_unsharded[index]) cells.insert(cells.end() - 1, PipelineAction{unshard, stage});
      is_unsharded[index] = true;
      const bool ends = scope == UnshardScope::action || static_cast<int>(i) == last[index];
      if (ends) cells.push_back(PipelineAction{reshard, stage});
      if (ends) is_unsharded[index] = false;
      if (static_cast<int>(i) == last_gradient[index]) cells.push_back(PipelineAction{reduce_grad, stage});
    }
  }
  return sharded;
}

}  // namespace tessera::dist
