#include "tools/tessera/pipeline/show_schedule.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <ostream>

#include "dist/pipeline/generators/lowering.h"
#include "dist/pipeline/generators/schedule_kind.h"
#include "dist/pipeline/schedule/csv.h"
#include "dist/pipeline/schedule/table.h"
#include "dist/pipeline/simulation/check.h"
#include "tensor/error.h"
#include "tensor/number_text.h"
#include "tools/tessera/pipeline/pipeline_timeline.h"
#include "tools/tessera/pipeline/traced_step.h"
#include "tools/tessera/text_table.h"

namespace tessera::tools {
namespace {

using dist::PipelineSchedule;
using dist::PipelineTimeline;

PipelineSchedule schedule_of(const ScheduleFlags& f) {
  PipelineSchedule schedule = f.from_csv.empty()
                                  ? dist::make_schedule({.kind = dist::parse_schedule_kind(f.kind),
                                                         .ranks = f.stages,
                                                         .micro_batches = f.micro_batches,
                                                         .chunks = f.chunks,
                                                         .group = f.group})
                                  : dist::read_schedule_csv(f.from_csv);
  dist::check_schedule(schedule);
  if (f.messages) schedule = dist::with_messages(schedule);
  require<ConfigError>(f.unshard.empty() || f.unshard == "step" || f.unshard == "action",
                       "schedule: expected --unshard step or action, got '", f.unshard, "'");
  if (!f.unshard.empty())
    schedule = dist::with_sharding(
        schedule, f.unshard == "step" ? dist::UnshardScope::step : dist::UnshardScope::action);
  require<ConfigError>(f.most_live >= 0, "schedule: expected --most-live of 0 or more, got ", f.most_live);
  dist::check_schedule(schedule, std::vector<int>(f.most_live > 0 ? schedule.rows.size() : 0, f.most_live));
  return schedule;
}

/// The times of a rank are divided evenly among its chunks, so that schedules of the same model compare.
dist::PipelineTimes times_of(const ScheduleFlags& f, const PipelineSchedule& schedule) {
  const double share = static_cast<double>(schedule.ranks()) / schedule.stages;
  return {.stages = {{f.forward * share, f.backward_input * share, f.backward_weight * share}},
          .latency = f.latency};
}

std::string percent(double fraction) {
  return fixed(100 * fraction, 1) + " %";
}

void print_ranks(const PipelineSchedule& schedule, const PipelineTimeline& timeline, std::ostream& out) {
  const std::vector<int> live = dist::peak_live_micro_batches(schedule);
  std::vector<std::vector<std::string>> rows{{"rank", "stages", "live at most", "computes", "idle"}};
  for (size_t rank = 0; rank < schedule.rows.size(); ++rank) {
    std::string stages;
    for (int stage = 0; stage < schedule.stages; ++stage)
      if (schedule.stage_ranks[static_cast<size_t>(stage)] == static_cast<int>(rank))
        stages += (stages.empty() ? "" : " ") + std::to_string(stage);
    rows.push_back({std::to_string(rank), stages, std::to_string(live[rank]), text(timeline.busy[rank]),
                    text(timeline.makespan - timeline.busy[rank])});
  }
  out << text_table(rows);
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  require<ConfigError>(static_cast<bool>(file.flush()), "schedule: cannot write '", path, "'");
}

void print_measured(const PipelineTimeline& measured, const PipelineTimeline& simulated, std::ostream& out) {
  std::vector<std::vector<std::string>> rows{{"rank", "computes, ms", "idle, ms", "share", "simulated"}};
  for (size_t rank = 0; rank < measured.ranks.size(); ++rank)
    rows.push_back({std::to_string(rank), fixed(measured.busy[rank], 2),
                    fixed(measured.makespan - measured.busy[rank], 2),
                    percent(measured.busy[rank] / measured.makespan),
                    percent(simulated.busy[rank] / simulated.makespan)});
  out << "\nMeasured: the actions of a step take " << fixed(measured.makespan, 2) << " ms, bubble "
      << percent(measured.bubble()) << ".\n"
      << text_table(rows);
}

}  // namespace

void show_schedule(const ScheduleFlags& f, std::ostream& out) {
  const PipelineSchedule schedule = schedule_of(f);
  const PipelineTimeline timeline = dist::simulate(schedule, times_of(f, schedule));
  const auto counted = [](int count, const char* one, const char* many) {
    return text(count, " ", count == 1 ? one : many);
  };
  const std::string what = text(schedule.name, ": ", counted(schedule.stages, "stage", "stages"), " on ",
                                counted(schedule.ranks(), "rank", "ranks"), ", ",
                                counted(schedule.micro_batches, "micro-batch", "micro-batches"));
  out << what << ", " << schedule.slots() << " slots\n\n" << schedule_table(schedule) << "\n";
  print_ranks(schedule, timeline, out);
  out << "\nTime of a step: " << text(timeline.makespan) << ". A rank's share of a micro-batch takes F "
      << text(f.forward) << ", I " << text(f.backward_input) << ", W " << text(f.backward_weight) << ", B "
      << text(f.backward_input + f.backward_weight) << "; a message " << text(f.latency) << ".\n"
      << "Bubble: " << percent(timeline.bubble()) << " of all ranks' time, "
      << percent(timeline.bubble_over_ideal()) << " of the time of a perfect pipeline.\n";
  std::optional<PipelineTimeline> measured;
  if (!f.traces.empty()) measured = read_traced_step(f.traces, schedule);
  if (measured) print_measured(*measured, timeline, out);
  if (!f.csv.empty()) write_file(f.csv, to_csv(schedule));
  if (!f.csv.empty()) out << "The table: " << f.csv << "\n";
  if (f.svg.empty()) return;
  write_file(f.svg, pipeline_timeline(schedule, timeline, what + ", bubble " + percent(timeline.bubble()),
                                      measured ? &*measured : nullptr));
  out << "The timeline: " << f.svg << "\n";
}

}  // namespace tessera::tools
