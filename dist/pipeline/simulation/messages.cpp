#include "dist/pipeline/simulation/messages.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "tensor/error.h"

namespace tessera::dist {

using enum ActionKind;

namespace {

bool is_send(ActionKind kind) {
  return kind == send_forward || kind == send_backward;
}
bool is_of_forward(ActionKind kind) {
  return kind == send_forward || kind == recv_forward;
}

/// The action of its own stage that computes what a send sends, or reads what a receive receives.
PipelineAction user_of(const PipelineAction& message, const CellIndex& cells) {
  PipelineAction user{is_of_forward(message.kind) ? forward : backward, message.stage, message.micro_batch};
  if (user.kind == backward && !cells.has(user)) user.kind = backward_input;
  return user;
}

void check_message(const PipelineSchedule& s, const CellIndex& cells, int rank, size_t slot) {
  const PipelineAction& message = *s.rows[static_cast<size_t>(rank)][slot];
  const PipelineAction other = counterpart(message);
  if (other.stage < 0 || other.stage >= s.stages)
    refuse_cell(s, rank, slot, "the model has no stage ", other.stage);
  if (s.stage_ranks[static_cast<size_t>(other.stage)] == rank)
    refuse_cell(s, rank, slot, "stage ", other.stage, " is on the same rank, and needs no message");
  if (!cells.has(other)) refuse_cell(s, rank, slot, "no ", other, " matches it");
  const PipelineAction user = user_of(message, cells);
  const bool is_after = static_cast<int>(slot) > cells.slot(user);
  if (is_after != is_send(message.kind))
    refuse_cell(s, rank, slot, is_after ? "it follows " : "it precedes ", user, " in slot ",
                cells.slot(user));
}

/// An action with an input from another rank has a receive.
void check_received(const PipelineSchedule& s, const CellIndex& cells, int rank, size_t slot) {
  const PipelineAction& action = *s.rows[static_cast<size_t>(rank)][slot];
  if (action.kind == backward_weight) return;
  const PipelineAction receive{action.kind == forward ? recv_forward : recv_backward, action.stage,
                               action.micro_batch};
  const int source = counterpart(receive).stage;
  if (source < 0 || source >= s.stages || s.stage_ranks[static_cast<size_t>(source)] == rank) return;
  if (!cells.has(receive))
    refuse_cell(s, rank, slot, "its input comes from rank ", s.stage_ranks[static_cast<size_t>(source)],
                ", and no ", receive, " receives it");
}

}  // namespace

PipelineAction counterpart(const PipelineAction& m) {
  switch (m.kind) {
    case send_forward:
      return {recv_forward, m.stage + 1, m.micro_batch};
    case recv_forward:
      return {send_forward, m.stage - 1, m.micro_batch};
    case send_backward:
      return {recv_backward, m.stage - 1, m.micro_batch};
    default:
      return {send_backward, m.stage + 1, m.micro_batch};
  }
}

bool has_messages(const PipelineSchedule& schedule) {
  for (const auto& row : schedule.rows)
    for (const ScheduleCell& cell : row)
      if (cell && is_communication(cell->kind)) return true;
  return false;
}

void check_messages(const PipelineSchedule& s, const CellIndex& cells) {
  for (int rank = 0; rank < s.ranks(); ++rank) {
    const auto& row = s.rows[static_cast<size_t>(rank)];
    for (size_t slot = 0; slot < row.size(); ++slot) {
      if (!row[slot]) continue;
      if (is_communication(row[slot]->kind)) check_message(s, cells, rank, slot);
      if (is_compute(row[slot]->kind)) check_received(s, cells, rank, slot);
    }
  }
}

Execution execute_rendezvous(const PipelineSchedule& s) {
  const size_t ranks = s.rows.size();
  Execution run{.times = {}, .next = std::vector<size_t>(ranks), .waits_for = {}};
  const auto less = [](const PipelineAction& a, const PipelineAction& b) {
    return std::tie(a.kind, a.stage, a.micro_batch) < std::tie(b.kind, b.stage, b.micro_batch);
  };
  std::set<PipelineAction, decltype(less)> posted(less);
  const auto is_message = [](const ScheduleCell& cell) { return cell && is_communication(cell->kind); };

  // To the end of the batch that begins at the rank's next cell; its first message that waits stops the rank.
  const auto advance = [&](size_t rank) {
    const auto& row = s.rows[rank];
    const size_t first = run.next[rank], before = posted.size();
    for (size_t& next = run.next[rank]; next < row.size();) {
      if (!is_message(row[next])) {
        ++next;
        continue;
      }
      size_t end = next;
      for (; end < row.size() && (!row[end] || is_message(row[end])); ++end)
        if (row[end]) posted.insert(*row[end]);
      const auto waiting = std::find_if(
          row.begin() + static_cast<std::ptrdiff_t>(next), row.begin() + static_cast<std::ptrdiff_t>(end),
          [&](const ScheduleCell& cell) { return cell && !posted.contains(counterpart(*cell)); });
      next = static_cast<size_t>(waiting - row.begin());
      if (next < end) break;
    }
    return run.next[rank] > first || posted.size() > before;
  };
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (size_t rank = 0; rank < ranks; ++rank) goes_on |= advance(rank);
  }
  for (size_t rank = 0; rank < ranks; ++rank)
    run.waits_for.push_back(run.next[rank] < s.rows[rank].size()
                                ? std::optional(counterpart(*s.rows[rank][run.next[rank]]))
                                : std::nullopt);
  return run;
}

}  // namespace tessera::dist
