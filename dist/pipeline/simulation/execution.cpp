#include "dist/pipeline/simulation/execution.h"

#include <algorithm>
#include <cmath>

#include "tensor/error.h"

namespace tessera::dist {

using enum ActionKind;

DataFlow::DataFlow(const PipelineSchedule& schedule, double latency)
    : schedule_(&schedule), latency_(latency) {
  const size_t pairs = static_cast<size_t>(schedule.stages) * static_cast<size_t>(schedule.micro_batches);
  forward_ends_.assign(pairs, -1);
  gradient_ends_.assign(pairs, -1);
}

std::vector<PipelineAction> DataFlow::inputs_of(const PipelineAction& a) const {
  const bool is_first = a.stage == 0, is_last = a.stage == schedule_->stages - 1;
  const PipelineAction own_forward{forward, a.stage, a.micro_batch};
  switch (a.kind) {
    case forward:
      if (is_first) return {};
      return {{forward, a.stage - 1, a.micro_batch}};
    case backward:
    case backward_input:
      if (is_last) return {own_forward};
      return {own_forward, {backward, a.stage + 1, a.micro_batch}};
    case backward_weight:
      return {{backward_input, a.stage, a.micro_batch}};
    default:
      return {};
  }
}

double& DataFlow::end_of(const PipelineAction& a) {
  const size_t index = static_cast<size_t>(a.stage) * static_cast<size_t>(schedule_->micro_batches) +
                       static_cast<size_t>(a.micro_batch);
  return (a.kind == forward ? forward_ends_ : gradient_ends_)[index];
}

double DataFlow::end_of(const PipelineAction& a) const {
  return const_cast<DataFlow*>(this)->end_of(a);
}

std::optional<double> DataFlow::ready(const PipelineAction& action) const {
  double time = 0;
  for (const PipelineAction& input : inputs_of(action)) {
    const double end = end_of(input);
    if (end < 0) return {};
    const auto rank = [&](int stage) { return schedule_->stage_ranks[static_cast<size_t>(stage)]; };
    time = std::max(time, end + (rank(input.stage) == rank(action.stage) ? 0 : latency_));
  }
  return time;
}

PipelineAction DataFlow::missing_input(const PipelineAction& action) const {
  for (const PipelineAction& input : inputs_of(action))
    if (end_of(input) < 0) return input;
  return action;
}

void DataFlow::finish(const PipelineAction& action, double end) {
  if (is_compute(action.kind) && action.kind != backward_weight) end_of(action) = end;
}

Execution execute(const PipelineSchedule& schedule,
                  const std::function<double(const PipelineAction&)>& duration, double latency) {
  DataFlow data(schedule, latency);
  Execution run{.times = std::vector<std::vector<CellTime>>(schedule.rows.size()),
                .next = std::vector<size_t>(schedule.rows.size()),
                .waits_for = std::vector<std::optional<PipelineAction>>(schedule.rows.size())};
  std::vector<double> now(schedule.rows.size());
  const auto advance = [&](size_t rank) {
    const auto& row = schedule.rows[rank];
    const size_t first = run.next[rank];
    for (size_t& slot = run.next[rank]; slot < row.size(); ++slot) {
      CellTime time{now[rank], now[rank]};
      if (row[slot]) {
        const std::optional<double> ready = data.ready(*row[slot]);
        if (!ready) break;
        time.begin = std::max(time.begin, *ready);
        time.end = time.begin + (is_communication(row[slot]->kind) ? 0 : duration(*row[slot]));
        data.finish(*row[slot], time.end);
        now[rank] = time.end;
      }
      run.times[rank].push_back(time);
    }
    return run.next[rank] > first;
  };
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (size_t rank = 0; rank < schedule.rows.size(); ++rank) goes_on |= advance(rank);
  }
  for (size_t rank = 0; rank < schedule.rows.size(); ++rank)
    if (run.next[rank] < schedule.rows[rank].size())
      run.waits_for[rank] = data.missing_input(*schedule.rows[rank][run.next[rank]]);
  return run;
}

bool Execution::is_complete() const {
  return std::none_of(waits_for.begin(), waits_for.end(),
                      [](const auto& action) { return action.has_value(); });
}

PipelineSchedule placed_in_slots(const PipelineSchedule& schedule) {
  const Execution run = execute(schedule, [](const PipelineAction&) { return 1.0; });
  require_complete(schedule, run);
  PipelineSchedule placed = schedule;
  for (size_t rank = 0; rank < schedule.rows.size(); ++rank) {
    placed.rows[rank].clear();
    for (size_t slot = 0; slot < schedule.rows[rank].size(); ++slot) {
      if (!schedule.rows[rank][slot]) continue;
      placed.rows[rank].resize(static_cast<size_t>(std::lround(run.times[rank][slot].begin)));
      placed.rows[rank].push_back(schedule.rows[rank][slot]);
    }
  }
  return placed;
}

std::string cell_text(const PipelineSchedule& schedule, int rank, size_t slot) {
  const ScheduleCell& cell = schedule.rows[static_cast<size_t>(rank)][slot];
  return text("schedule '", schedule.name, "': rank ", rank, ", slot ", slot, " (",
              cell ? to_string(*cell) : "idle", ")");
}

void require_complete(const PipelineSchedule& schedule, const Execution& run) {
  if (run.is_complete()) return;
  size_t rank = 0;
  while (!run.waits_for[rank]) ++rank;
  std::string message;
  for (std::vector<bool> seen(run.next.size()); !seen[rank] && run.waits_for[rank];) {
    seen[rank] = true;
    PipelineAction waited = *run.waits_for[rank];
    const size_t holder = static_cast<size_t>(schedule.stage_ranks[static_cast<size_t>(waited.stage)]);
    const auto& row = schedule.rows[holder];
    if (waited.kind == backward && std::find(row.begin(), row.end(), waited) == row.end())
      waited.kind = backward_input;
    const std::string cell = message.empty() ? cell_text(schedule, static_cast<int>(rank), run.next[rank])
                                             : text("rank ", rank, ", slot ", run.next[rank], " (",
                                                    *schedule.rows[rank][run.next[rank]], ")");
    message += text(message.empty() ? "" : ", and ", cell, " waits for ", waited, " of rank ", holder);
    rank = holder;
  }
  throw ConfigError(message + ": a deadlock");
}

}  // namespace tessera::dist
