// Generated schedules: tables of small ones, and the properties of all with up to 8 ranks and micro-batches.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "dist/pipeline/generators/orders.h"
#include "dist/pipeline/schedule/table.h"
#include "dist/pipeline/simulation/check.h"
#include "tensor/error.h"
#include "tests/dist/pipeline/all_schedules.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

std::string table_of(const ScheduleOptions& options) {
  return schedule_table(make_schedule(options));
}

/// min(M, S - s) and the like: the live micro-batches that a rank holds at most.
int most_live(const ScheduleOptions& o, int rank) {
  const int S = o.ranks, M = o.micro_batches, v = o.chunks;
  const int group = M / std::max(1, M / S) + (M % std::max(1, M / S) != 0 ? 1 : 0);
  switch (o.kind) {
    case ScheduleKind::one_f_one_b:
      return std::min(M, S - rank);
    case ScheduleKind::zb_h1:
      return std::min(M, S);
    case ScheduleKind::zb_v:
      return 2 * std::min(M, S);
    case ScheduleKind::interleaved:
      return std::min(v * M, 2 * (S - rank - 1) + (v - 1) * group + 1);
    default:
      return v * M;
  }
}

}  // namespace

// Figure 2c of Huang et al. 2019, with the backwards in ascending order.
TEST_CASE("pipeline schedules: the table of gpipe") {
  CHECK(table_of({.kind = ScheduleKind::gpipe, .ranks = 3, .micro_batches = 3}) ==
        "slot   0  1  2  3  4  5  6  7  8  9\n"
        "rank 0 F0 F1 F2 .  .  .  .  B0 B1 B2\n"
        "rank 1 .  F0 F1 F2 .  .  B0 B1 B2 .\n"
        "rank 2 .  .  F0 F1 F2 B0 B1 B2 .  .\n");
}

// Figure 4 (top) of Narayanan et al. 2021 without the longer backwards.
TEST_CASE("pipeline schedules: the table of 1f1b") {
  CHECK(table_of({.ranks = 4, .micro_batches = 6}) ==
        "slot   0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16 17\n"
        "rank 0 F0 F1 F2 F3 .  .  .  B0 F4 B1 F5 B2 .  B3 .  B4 .  B5\n"
        "rank 1 .  F0 F1 F2 .  .  B0 F3 B1 F4 B2 F5 B3 .  B4 .  B5 .\n"
        "rank 2 .  .  F0 F1 .  B0 F2 B1 F3 B2 F4 B3 F5 B4 .  B5 .  .\n"
        "rank 3 .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 .  .  .\n");
}

// Figure 4 (bottom) of the same paper has four ranks; chunks are after the point.
TEST_CASE("pipeline schedules: the table of interleaved") {
  CHECK(table_of({.kind = ScheduleKind::interleaved, .ranks = 2, .micro_batches = 4}) ==
        "slot   0    1    2    3    4    5    6    7    8    9    10   11   12   13   14   15   16   17\n"
        "rank 0 F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 .    B2.1 .    B3.1 B2.0 B3.0\n"
        "rank 1 .    F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0 .\n");
}

// Figure 3 (top) of Qi et al. 2023: the bubble before the first I is filled at the end by W.
TEST_CASE("pipeline schedules: the table of zb-h1") {
  CHECK(table_of({.kind = ScheduleKind::zb_h1, .ranks = 3, .micro_batches = 4}) ==
        "slot   0  1  2  3  4  5  6  7  8  9  10 11 12 13\n"
        "rank 0 F0 F1 F2 .  .  I0 W0 F3 I1 W1 I2 W2 I3 W3\n"
        "rank 1 .  F0 F1 .  I0 F2 I1 W0 F3 I2 W1 I3 W2 W3\n"
        "rank 2 .  .  F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3\n");
}

TEST_CASE("pipeline schedules: the table of zb-v") {
  CHECK(
      table_of({.kind = ScheduleKind::zb_v, .ranks = 2, .micro_batches = 3}) ==
      "slot   0    1    2    3    4    5    6    7    8    9    10   11   12   13   14   15   16   17   18\n"
      "rank 0 F0.0 F1.0 F2.0 F0.1 I0.1 W0.1 F1.1 I1.1 W1.1 I0.0 W0.0 F2.1 I2.1 W2.1 I1.0 W1.0 I2.0 W2.0 .\n"
      "rank 1 .    F0.0 F0.1 F1.0 F1.1 I0.1 W0.1 F2.0 I0.0 W0.0 F2.1 I1.1 W1.1 I1.0 I2.1 I2.0 W1.0 W2.1 "
      "W2.0\n");
}

TEST_CASE("pipeline schedules: the table of breadth-first") {
  CHECK(table_of({.kind = ScheduleKind::breadth_first, .ranks = 2, .micro_batches = 3}) ==
        "slot   0    1    2    3    4    5    6    7    8    9    10   11   12   13\n"
        "rank 0 F0.0 F1.0 F2.0 F0.1 F1.1 F2.1 .    .    B0.1 B1.1 B2.1 B0.0 B1.0 B2.0\n"
        "rank 1 .    F0.0 F1.0 F2.0 F0.1 F1.1 F2.1 B0.1 B1.1 B2.1 B0.0 B1.0 B2.0 .\n");
}

TEST_CASE("pipeline schedules: all are valid, and hold no more micro-batches than their bound") {
  int count = 0;
  for_all_schedules([&](const ScheduleOptions& o) {
    CAPTURE(name_of(o.kind));
    CAPTURE(o.ranks);
    CAPTURE(o.micro_batches);
    CAPTURE(o.chunks);
    const PipelineSchedule schedule = make_schedule(o);
    std::vector<int> limits;
    for (int rank = 0; rank < o.ranks; ++rank) limits.push_back(most_live(o, rank));
    CHECK_NOTHROW(check_schedule(schedule, limits));
    CHECK(schedule.ranks() == o.ranks);
    CHECK(schedule.chunks() == o.chunks);
    CHECK(schedule.stages == o.ranks * o.chunks);
    // The bound is reached, except by zb-v on the first ranks where micro-batches are few.
    if (o.kind != ScheduleKind::zb_v) CHECK(peak_live_micro_batches(schedule) == limits);
    ++count;
  });
  CHECK(count == 64 * (4 + 2 * 4));
}

TEST_CASE(
    "pipeline schedules: a stage runs its micro-batches in ascending order, so sums have the same bits") {
  for_all_schedules([&](const ScheduleOptions& o) {
    const PipelineSchedule schedule = make_schedule(o);
    for (int rank = 0; rank < o.ranks; ++rank) {
      std::map<std::pair<int, int>, int> next;  // by stage and kind
      bool ascends = true;
      for (const PipelineAction& action : schedule.actions(rank))
        ascends &= action.micro_batch == next[{action.stage, static_cast<int>(action.kind)}]++;
      CHECK(ascends);
    }
  });
}

TEST_CASE("pipeline schedules: 1f1b and gpipe take 2 (M + S - 1) slots") {
  for_all_schedules([](const ScheduleOptions& o) {
    if (o.kind == ScheduleKind::gpipe || o.kind == ScheduleKind::one_f_one_b)
      CHECK(make_schedule(o).slots() == 2 * (o.micro_batches + o.ranks - 1));
  });
}

TEST_CASE("pipeline schedules: groups of interleaved, the last with the remainder") {
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (int micro_batches = 1; micro_batches <= 11; ++micro_batches)
      for (int chunks = 1; chunks <= 3; ++chunks)
        for (int group = std::min(ranks, micro_batches); group <= micro_batches; ++group) {
          const PipelineSchedule schedule = make_schedule({.kind = ScheduleKind::interleaved,
                                                           .ranks = ranks,
                                                           .micro_batches = micro_batches,
                                                           .chunks = chunks,
                                                           .group = group});
          CHECK_NOTHROW(check_schedule(schedule));
        }
  const PipelineSchedule schedule = make_schedule(
      {.kind = ScheduleKind::interleaved, .ranks = 2, .micro_batches = 5, .chunks = 2, .group = 3});
  std::string forwards;
  for (const PipelineAction& action : schedule.actions(1))
    if (action.kind == ActionKind::forward) forwards += to_string(action) + " ";
  CHECK(forwards == "1F0 1F1 1F2 3F0 3F1 3F2 1F3 1F4 3F3 3F4 ");
}

// Why a last group of less than S keeps the order of a full one.
TEST_CASE("pipeline schedules: a small last group without pauses is a deadlock for some numbers") {
  PipelineSchedule schedule{.name = "groups of 4 and 1", .stages = 12, .micro_batches = 5};
  schedule.stage_ranks = looped_stage_ranks(4, 3);
  for (int rank = 0; rank < 4; ++rank) {
    const ActionOrder order = interleaved_order(4, 5, 3, {4, 1}, rank);
    schedule.rows.emplace_back(order.begin(), order.end());
  }
  CHECK_THROWS_WITH_AS(
      check_schedule(schedule),
      "schedule 'groups of 4 and 1': rank 0, slot 14 (8F4) waits for 7F4 of rank 3, and rank 3, slot "
      "17 (7B0) waits for 8B0 of rank 0: a deadlock",
      ConfigError);
}

TEST_CASE("pipeline schedules: maps of stages to ranks") {
  CHECK(looped_stage_ranks(3, 2) == std::vector<int>{0, 1, 2, 0, 1, 2});
  CHECK(v_stage_ranks(3, 2) == std::vector<int>{0, 1, 2, 2, 1, 0});
  CHECK(v_stage_ranks(2, 3) == std::vector<int>{0, 1, 1, 0, 0, 1});
  const PipelineSchedule schedule =
      make_schedule({.kind = ScheduleKind::zb_v, .ranks = 3, .micro_batches = 1});
  CHECK(schedule.stage_ranks == v_stage_ranks(3, 2));
  CHECK(schedule.chunk_of(2) == 0);
  CHECK(schedule.chunk_of(3) == 1);
}

TEST_CASE("pipeline schedules: names, and options outside their range") {
  for (const ScheduleKind kind : schedule_kinds) CHECK(parse_schedule_kind(name_of(kind)) == kind);
  CHECK(names_of_schedules() == "gpipe, 1f1b, interleaved, zb-h1, zb-v, breadth-first");
  CHECK_THROWS_WITH_AS(parse_schedule_kind("pipedream"),
                       doctest::Contains("'pipedream': expected one of gpipe, "), ConfigError);
  const auto throws = [](const ScheduleOptions& options, const char* message) {
    CHECK_THROWS_WITH_AS(make_schedule(options), message, ConfigError);
  };
  throws({.ranks = 0}, "1f1b: expected 1 or more ranks, got 0");
  throws({.micro_batches = -1}, "1f1b: expected 1 or more micro-batches, got -1");
  throws({.chunks = -2}, "1f1b: expected 1 or more chunks on each rank, got -2");
  throws({.chunks = 2},
         "1f1b: each rank has 1 chunk of the model, got 2; interleaved and breadth-first take any number");
  throws({.kind = ScheduleKind::zb_v, .chunks = 3},
         "zb-v: each rank has 2 chunks of the model, got 3; interleaved and breadth-first take any number");
  throws({.ranks = 2'000'000'000, .micro_batches = 2'000'000'000},
         "1f1b: expected at most 100000000 forwards of a step, got 2000000000 ranks, 1 chunks and 2000000000 "
         "micro-batches");
  throws(
      {.kind = ScheduleKind::zb_v, .ranks = 100'000},
      "zb-v: expected at most 100000000 forwards of a step, got 100000 ranks, 2 chunks and 1 micro-batches");
  throws({.group = 1}, "1f1b: groups of micro-batches are of interleaved alone, got a group of 1");
  throws({.kind = ScheduleKind::interleaved, .ranks = 4, .micro_batches = 8, .group = 3},
         "interleaved: expected a group of 4 to 8 micro-batches, got 3");
  throws({.kind = ScheduleKind::interleaved, .ranks = 4, .micro_batches = 8, .group = 9},
         "interleaved: expected a group of 4 to 8 micro-batches, got 9");
}
