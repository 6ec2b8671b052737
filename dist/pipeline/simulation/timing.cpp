#include "dist/pipeline/simulation/timing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dist/pipeline/simulation/check.h"
#include "dist/pipeline/simulation/execution.h"
#include "tensor/error.h"

namespace tessera::dist {
namespace {

void check_times(const PipelineSchedule& schedule, const PipelineTimes& times) {
  const auto is_time = [](double time) { return std::isfinite(time) && time >= 0; };
  require<ConfigError>(
      times.stages.size() <= 1 || times.stages.size() == static_cast<size_t>(schedule.stages), "schedule '",
      schedule.name, "': expected times of 1 stage or of ", schedule.stages, ", got ", times.stages.size());
  for (const StageTimes& t : times.stages)
    require<ConfigError>(is_time(t.forward) && is_time(t.backward_input) && is_time(t.backward_weight),
                         "schedule '", schedule.name, "': expected times of 0 or more, got ", t.forward, ", ",
                         t.backward_input, " and ", t.backward_weight);
  require<ConfigError>(is_time(times.latency), "schedule '", schedule.name,
                       "': expected a latency of 0 or more, got ", times.latency);
}

double duration(const PipelineAction& action, const StageTimes& times) {
  switch (action.kind) {
    case ActionKind::forward:
      return times.forward;
    case ActionKind::backward:
      return times.backward();
    case ActionKind::backward_input:
      return times.backward_input;
    case ActionKind::backward_weight:
      return times.backward_weight;
    default:
      return 0;
  }
}

}  // namespace

double PipelineTimeline::bubble() const {
  const double all = makespan * static_cast<double>(ranks.size());
  // Sums of rounded times may be larger than the makespan.
  return all > 0 ? std::max(0.0, 1 - std::accumulate(busy.begin(), busy.end(), 0.0) / all) : 0;
}

double PipelineTimeline::bubble_over_ideal() const {
  const double all = std::accumulate(busy.begin(), busy.end(), 0.0);
  return all > 0 ? std::max(0.0, makespan * static_cast<double>(ranks.size()) / all - 1) : 0;
}

PipelineTimeline simulate(const PipelineSchedule& schedule, const PipelineTimes& times) {
  check_times(schedule, times);
  check_schedule(schedule);
  const std::vector<StageTimes> stages = times.stages.empty() ? std::vector(1, StageTimes{}) : times.stages;
  const auto duration_of = [&](const PipelineAction& action) {
    return duration(action, stages[stages.size() == 1 ? 0 : static_cast<size_t>(action.stage)]);
  };
  const Execution run = execute(schedule, duration_of, times.latency);
  require_complete(schedule, run);
  PipelineTimeline timeline{.ranks = std::vector<std::vector<TimedAction>>(schedule.rows.size()),
                            .busy = std::vector<double>(schedule.rows.size())};
  for (size_t rank = 0; rank < schedule.rows.size(); ++rank)
    for (size_t slot = 0; slot < schedule.rows[rank].size(); ++slot) {
      if (!schedule.rows[rank][slot]) continue;
      const CellTime& time = run.times[rank][slot];
      timeline.ranks[rank].push_back({*schedule.rows[rank][slot], slot, time.begin, time.end});
      timeline.busy[rank] += time.end - time.begin;
      timeline.makespan = std::max(timeline.makespan, time.end);
    }
  return timeline;
}

}  // namespace tessera::dist
