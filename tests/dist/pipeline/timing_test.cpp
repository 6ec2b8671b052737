// Times of schedules against the formulas of the papers. Units: a forward of a chunk takes f = 1, the
// gradients of its inputs 1 and of its weights 1, so a whole backward b = 2 f. With v chunks a rank's forward
// is v chunks long.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "dist/pipeline/schedule/csv.h"
#include "dist/pipeline/simulation/timing.h"
#include "tensor/error.h"
#include "tests/dist/pipeline/all_schedules.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

/// The formula of each schedule's makespan.
double makespan(const ScheduleOptions& o) {
  const int S = o.ranks, M = o.micro_batches, v = o.chunks;
  switch (o.kind) {
    case ScheduleKind::zb_h1:
      return std::max(3 * M + (S - 1), 2 * M + 2 * S - 1);
    case ScheduleKind::zb_v:
      return std::max(6 * M + (S - 1), 4 * M + 4 * S - 2);
    default:
      return 3 * (v * std::max(S, M) + std::min(S, M) - 1);
  }
}

}  // namespace

TEST_CASE("pipeline timing: the makespan of every schedule is its formula's") {
  for_all_schedules([](const ScheduleOptions& o) {
    CAPTURE(name_of(o.kind));
    CAPTURE(o.ranks);
    CAPTURE(o.micro_batches);
    CAPTURE(o.chunks);
    const PipelineTimeline timeline = simulate(make_schedule(o));
    CHECK(timeline.makespan == makespan(o));
    for (const double busy : timeline.busy) CHECK(busy == 3 * o.chunks * o.micro_batches);
    // The bubble over the time of a perfect pipeline, with at least S micro-batches: (S - 1) / M for gpipe
    // and 1f1b, divided by v where chunks are interleaved, a third of it in zb-h1, a sixth in zb-v with M >=
    // (3S - 1) / 2.
    const bool is_v = o.kind == ScheduleKind::zb_v;
    if (o.micro_batches < o.ranks || (is_v && 2 * o.micro_batches < 3 * o.ranks - 1)) return;
    const double divisor = o.kind == ScheduleKind::zb_h1 ? 3 : is_v ? 6 : o.chunks;
    const double expected = (o.ranks - 1.0) / o.micro_batches / divisor;
    CHECK(timeline.bubble_over_ideal() == doctest::Approx(expected));
  });
}

TEST_CASE(
    "pipeline timing: the bubble of gpipe and 1f1b is (S - 1) / (M + S - 1) for any times of equal stages") {
  const StageTimes all_times[] = {{1, 1, 1}, {1, 0.5, 0.5}, {2, 3, 0.25}};
  for (const StageTimes& times : all_times)
    for_all_schedules([&](const ScheduleOptions& o) {
      if (o.kind != ScheduleKind::gpipe && o.kind != ScheduleKind::one_f_one_b) return;
      const double S = o.ranks, M = o.micro_batches;
      const PipelineTimeline timeline = simulate(make_schedule(o), {.stages = {times}});
      CHECK(timeline.bubble() == doctest::Approx((S - 1) / (M + S - 1)));
      CHECK(timeline.makespan == doctest::Approx((M + S - 1) * (times.forward + times.backward())));
    });
}

TEST_CASE("pipeline timing: begin and end of every action") {
  // Two stages, of which the second is slower; a message takes 0.5.
  const PipelineSchedule schedule = make_schedule({.ranks = 2, .micro_batches = 2});
  const PipelineTimeline timeline = simulate(schedule, {.stages = {{1, 1, 1}, {2, 1, 2}}, .latency = 0.5});
  std::ostringstream text;
  for (const auto& rank : timeline.ranks) {
    for (const TimedAction& a : rank)
      text << a.action.stage << name_of(a.action.kind) << a.action.micro_batch << " " << a.begin << "-"
           << a.end << " (" << a.slot << ") ";
    text << "\n";
  }
  CHECK(text.str() ==
        "0F0 0-1 (0) 0F1 1-2 (1) 0B0 7-9 (3) 0B1 12-14 (5) \n"
        "1F0 1.5-3.5 (1) 1B0 3.5-6.5 (2) 1F1 6.5-8.5 (3) 1B1 8.5-11.5 (4) \n");
  CHECK(timeline.makespan == 14);
  CHECK(timeline.busy == std::vector<double>{6, 10});
  CHECK(timeline.bubble() == doctest::Approx(1 - 16.0 / 28));
  CHECK(timeline.bubble_over_ideal() == doctest::Approx(28.0 / 16 - 1));
}

TEST_CASE("pipeline timing: stages on one rank send no message") {
  const PipelineSchedule schedule = parse_schedule_csv("0F0,1F0,1B0,0B0\n", "one");
  CHECK(simulate(schedule, {.latency = 10}).makespan == 6);
  CHECK(simulate(schedule).bubble() == 0);
  // Busy times whose sum is rounded to more than the makespan.
  const PipelineTimeline full{.ranks = {{}}, .makespan = 0.3, .busy = {0.1 + 0.2}};
  CHECK(full.bubble() == 0);
  CHECK(!std::signbit(full.bubble()));
  CHECK(full.bubble_over_ideal() == 0);
}

TEST_CASE("pipeline timing: times that are none, and a schedule that cannot run") {
  const PipelineSchedule schedule = make_schedule({.ranks = 3, .micro_batches = 2});
  CHECK_THROWS_WITH_AS(simulate(schedule, {.stages = {{}, {}}}),
                       "schedule '1f1b': expected times of 1 stage or of 3, got 2", ConfigError);
  CHECK_THROWS_WITH_AS(simulate(schedule, {.stages = {{-1, 1, 1}}}),
                       "schedule '1f1b': expected times of 0 or more, got -1, 1 and 1", ConfigError);
  CHECK_THROWS_AS(simulate(schedule, {.latency = std::numeric_limits<double>::quiet_NaN()}), ConfigError);
  CHECK_THROWS_AS(simulate(parse_schedule_csv("0B0,0F0\n", "late")), ConfigError);
}
