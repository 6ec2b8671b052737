// What a schedule is refused for, with the cell.

#include <doctest/doctest.h>

#include <utility>

#include "dist/pipeline/generators/lowering.h"
#include "dist/pipeline/schedule/csv.h"
#include "dist/pipeline/simulation/check.h"
#include "tensor/error.h"
#include "tests/dist/pipeline/all_schedules.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

void check_csv(const std::string& content, const std::vector<int>& most_live = {}) {
  check_schedule(parse_schedule_csv(content, "x"), most_live);
}

/// The message of the ConfigError; "" for none.
std::string refusal(const std::string& content, const std::vector<int>& most_live = {}) {
  try {
    check_csv(content, most_live);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("pipeline check: forward, backward and its halves of each stage and micro-batch") {
  CHECK(refusal("0F0,0B0\n") == "");
  CHECK(refusal("0F0,0I0,,0W0\n") == "");
  CHECK(refusal("0F0,0B0,0F1\n") ==
        "schedule 'x': rank 0, slot 2 (0F1): micro-batch 1 has no backward through stage 0");
  CHECK(refusal("0B0\n") == "schedule 'x': rank 0, slot 0 (0B0): the schedule has no forward 0F0");
  CHECK(refusal("0F1,0B1\n") == "schedule 'x': rank 0: no forward 0F0");
  CHECK(refusal("0B0,0F0\n") == "schedule 'x': rank 0, slot 0 (0B0): it precedes its forward, in slot 1");
  CHECK(refusal("0I0,0F0,0W0\n") == "schedule 'x': rank 0, slot 0 (0I0): it precedes its forward, in slot 1");
  CHECK(refusal("0F0,0B0,0B0\n") == "schedule 'x': rank 0, slot 2 (0B0): the action is in slot 1 too");
  CHECK(refusal("0F0,0I0\n") ==
        "schedule 'x': rank 0, slot 1 (0I0): the other half of the backward, 0W0, is missing");
  CHECK(refusal("0F0,0W0\n") ==
        "schedule 'x': rank 0, slot 1 (0W0): the other half of the backward, 0I0, is missing");
  CHECK(refusal("0F0,0W0,0I0\n") ==
        "schedule 'x': rank 0, slot 1 (0W0): it precedes the gradients of the inputs, in slot 2");
  CHECK(refusal("0F0,0B0,0W0\n") ==
        "schedule 'x': rank 0, slot 2 (0W0): the whole backward 0B0 is in slot 1 too");
}

TEST_CASE("pipeline check: stages and ranks that a schedule made by hand states") {
  PipelineSchedule schedule = make_schedule({.ranks = 2, .micro_batches = 2});
  const PipelineSchedule valid = schedule;
  const auto throws = [&](const char* message) {
    CHECK_THROWS_WITH_AS(check_schedule(schedule), message, ConfigError);
    schedule = valid;
  };
  schedule.stage_ranks = {1, 0};
  throws("schedule '1f1b': rank 0, slot 0 (0F0): stage 0 is on rank 1");
  schedule.stage_ranks = {0, 2};
  throws("schedule '1f1b': stage 1 is on rank 2, of 2 ranks");
  schedule.stage_ranks = {0};
  throws("schedule '1f1b': expected the ranks of 2 stages, got 1");
  schedule.rows[1][1]->stage = 2;
  throws("schedule '1f1b': rank 1, slot 1 (2F0): expected a stage below 2");
  schedule.micro_batches = 1;
  throws("schedule '1f1b': rank 0, slot 1 (0F1): expected a micro-batch below 1");
  schedule.stages = 0;
  throws("schedule '1f1b': expected stages and micro-batches, got 0 and 2");
}

TEST_CASE("pipeline check: a deadlock names the cells that wait for each other") {
  // Stage 0 wants the gradient of micro-batch 1 first, stage 1 runs 0 first and waits for nothing else.
  CHECK(refusal("0F0,0B0,0F1,0B1\n1F0,1F1,1B1,1B0\n") ==
        "schedule 'x': rank 0, slot 1 (0B0) waits for 1B0 of rank 1, and rank 1, slot 1 (1F1) waits for 0F1 "
        "of rank 0: "
        "a deadlock");
  CHECK(refusal("0F0,0I0,0W0,0F1,0I1,0W1\n1F0,1F1,1I0,1W0,1I1,1W1\n") ==
        "schedule 'x': rank 0, slot 1 (0I0) waits for 1I0 of rank 1, and rank 1, slot 1 (1F1) waits for 0F1 "
        "of rank 0: "
        "a deadlock");
  // On one rank: the second stage before the first.
  CHECK(refusal("1F0,0F0,1B0,0B0\n") ==
        "schedule 'x': rank 0, slot 0 (1F0) waits for 0F0 of rank 0: a deadlock");
}

TEST_CASE("pipeline check: live micro-batches above a limit") {
  const std::string gpipe = "0F0,0F1,0F2,0B0,0B1,0B2\n";
  CHECK(refusal(gpipe, {3}) == "");
  CHECK(refusal(gpipe, {2}) == "schedule 'x': rank 0, slot 2 (0F2): 3 micro-batches are live, of at most 2");
  CHECK(refusal(gpipe, {2, 2}) == "schedule 'x': expected limits of 1 ranks, got 2");
  // Activations of a split backward are held until W.
  CHECK(refusal("0F0,0I0,0F1,0W0,0I1,0W1\n", {1}) ==
        "schedule 'x': rank 0, slot 2 (0F1): 2 micro-batches are live, of at most 1");
  CHECK(refusal("0F0,0I0,0W0,0F1,0I1,0W1\n", {1}) == "");
}

TEST_CASE("pipeline check: messages match, and are where their values are") {
  const std::string first = "0F0,0SEND_F0,0RECV_B0,0B0\n", second = "1RECV_F0,1F0,1B0,1SEND_B0\n";
  CHECK(refusal(first + second) == "");
  CHECK(refusal("0F0,0RECV_B0,0B0\n" + second) ==
        "schedule 'x': rank 1, slot 0 (1RECV_F0): no 0SEND_F0 matches it");
  CHECK(refusal(first + "1F0,1B0,1SEND_B0\n") ==
        "schedule 'x': rank 0, slot 1 (0SEND_F0): no 1RECV_F0 matches it");
  CHECK(refusal("0F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n") ==
        "schedule 'x': rank 1, slot 0 (1F0): its input comes from rank 0, and no 1RECV_F0 receives it");
  CHECK(refusal("0SEND_F0,0F0,0RECV_B0,0B0\n" + second) ==
        "schedule 'x': rank 0, slot 0 (0SEND_F0): it precedes 0F0 in slot 1");
  CHECK(refusal(first + "1F0,1RECV_F0,1B0,1SEND_B0\n") ==
        "schedule 'x': rank 1, slot 1 (1RECV_F0): it follows 1F0 in slot 0");
  CHECK(refusal("0F0,0SEND_F0,0RECV_B0,0B0,0SEND_B0\n" + second) ==
        "schedule 'x': rank 0, slot 4 (0SEND_B0): the model has no stage -1");
  CHECK(refusal("0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0\n") ==
        "schedule 'x': rank 0, slot 1 (0SEND_F0): stage 1 is on the same rank, and needs no message");
}

TEST_CASE("pipeline check: a send waits for its receive, and messages in a row are one batch") {
  const std::string second =
      "1RECV_F0,1F0,1I0,1SEND_B0,1W0,1RECV_F1,1F1,1I1,1SEND_B1,1W1,1RECV_F2,1F2,1I2,1SEND_B2,1W2\n";
  const std::string rest = "0I0,0W0,0SEND_F2,0RECV_B1,0I1,0W1,0RECV_B2,0I2,0W2\n";
  // Rank 0 sends micro-batch 1 while rank 1 sends the gradient of 0: both receives are posted with the sends,
  // or not.
  CHECK(refusal("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0F2," + rest + second) == "");
  CHECK(refusal("0F0,0SEND_F0,0F1,0SEND_F1,,0RECV_B0,0F2," + rest + second) == "");
  CHECK(refusal("0F0,0SEND_F0,0F1,0SEND_F1,0F2,0RECV_B0," + rest + second) ==
        "schedule 'x': rank 0, slot 3 (0SEND_F1) waits for 1RECV_F1 of rank 1, and rank 1, slot 3 (1SEND_B0) "
        "waits for 0RECV_B0 of rank 0: a deadlock");
}

TEST_CASE("pipeline check: unsharding and reduction of gradients") {
  CHECK(refusal("0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD\n") == "");
  CHECK(refusal("0F0,0UNSHARD,0B0,0RESHARD\n") ==
        "schedule 'x': rank 0, slot 0 (0F0): the parameters of stage 0 are not unsharded");
  CHECK(refusal("0UNSHARD,0F0,0RESHARD,0B0\n") ==
        "schedule 'x': rank 0, slot 3 (0B0): the parameters of stage 0 are not unsharded");
  CHECK(refusal("0UNSHARD,0F0,0B0\n") == "schedule 'x': rank 0, slot 0 (0UNSHARD): no RESHARD follows");
  CHECK(refusal("0UNSHARD,0UNSHARD,0F0,0B0,0RESHARD\n") ==
        "schedule 'x': rank 0, slot 1 (0UNSHARD): stage 0 is unsharded since slot 0");
  CHECK(refusal("0RESHARD,0F0,0B0\n") == "schedule 'x': rank 0, slot 0 (0RESHARD): stage 0 is not unsharded");
  CHECK(refusal("0F0,0REDUCE_GRAD,0B0\n") ==
        "schedule 'x': rank 0, slot 1 (0REDUCE_GRAD): stage 0 has no gradients that are not reduced");
  CHECK(refusal("0F0,0B0,0REDUCE_GRAD,0F1,0B1\n") ==
        "schedule 'x': rank 0, slot 4 (0B1): no REDUCE_GRAD follows");
}

TEST_CASE(
    "pipeline check: a valid schedule without one of its cells, or with one of them twice, is refused") {
  for (const ScheduleKind kind : schedule_kinds) {
    CAPTURE(name_of(kind));
    const PipelineSchedule schedule = with_sharding(
        with_messages(make_schedule({.kind = kind, .ranks = 3, .micro_batches = 4})), UnshardScope::action);
    REQUIRE_NOTHROW(check_schedule(schedule));
    for (size_t rank = 0; rank < schedule.rows.size(); ++rank)
      for (size_t slot = 0; slot < schedule.rows[rank].size(); ++slot) {
        if (!schedule.rows[rank][slot]) continue;
        CAPTURE(to_string(*schedule.rows[rank][slot]));
        PipelineSchedule changed = schedule;
        changed.rows[rank][slot].reset();
        CHECK_THROWS_AS(check_schedule(changed), ConfigError);
        changed = schedule;
        changed.rows[rank].push_back(schedule.rows[rank][slot]);
        CHECK_THROWS_AS(check_schedule(changed), ConfigError);
      }
  }
}

TEST_CASE("pipeline check: two cells that change places make a valid schedule or a refused one") {
  int refused = 0, accepted = 0;
  for (const ScheduleKind kind : schedule_kinds) {
    const PipelineSchedule schedule = make_schedule({.kind = kind, .ranks = 3, .micro_batches = 3});
    for (size_t rank = 0; rank < schedule.rows.size(); ++rank)
      for (size_t a = 0; a < schedule.rows[rank].size(); ++a)
        for (size_t b = a + 1; b < schedule.rows[rank].size(); ++b) {
          PipelineSchedule changed = schedule;
          std::swap(changed.rows[rank][a], changed.rows[rank][b]);
          try {
            check_schedule(changed);
          } catch (const ConfigError&) {
            ++refused;
            continue;
          }
          ++accepted;
          CHECK_NOTHROW(check_schedule(with_messages(changed)));  // it runs to its end with messages too
        }
  }
  CHECK(refused > 100);
  CHECK(accepted > 100);
}

TEST_CASE(
    "pipeline lowering: every schedule with messages and sharding is valid, and computes in the same order") {
  for_all_schedules([](const ScheduleOptions& o) {
    const PipelineSchedule schedule = make_schedule(o), messages = with_messages(schedule);
    CHECK_NOTHROW(check_schedule(messages));
    CHECK_NOTHROW(check_schedule(with_sharding(messages, UnshardScope::step)));
    const PipelineSchedule sharded = with_sharding(messages, UnshardScope::action);
    CHECK_NOTHROW(check_schedule(sharded));
    for (int rank = 0; rank < o.ranks; ++rank) {
      std::vector<PipelineAction> computed;
      for (const PipelineAction& action : sharded.actions(rank))
        if (is_compute(action.kind)) computed.push_back(action);
      CHECK(computed == schedule.actions(rank));
    }
  });
}

TEST_CASE("pipeline lowering: cells of a small schedule") {
  const PipelineSchedule schedule = make_schedule({.ranks = 2, .micro_batches = 2});
  const PipelineSchedule messages = with_messages(schedule);
  CHECK(to_csv(messages) ==
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
        "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
  CHECK_THROWS_WITH_AS(with_messages(messages), "schedule '1f1b': it has messages already", ConfigError);
  const PipelineSchedule sharded = with_sharding(schedule, UnshardScope::step);
  CHECK(to_csv(sharded) ==
        "0UNSHARD,0F0,0F1,0B0,0B1,0RESHARD,0REDUCE_GRAD\n"
        "1UNSHARD,1F0,1B0,1F1,1B1,1RESHARD,1REDUCE_GRAD\n");
  CHECK_THROWS_WITH_AS(with_sharding(sharded, UnshardScope::step), "schedule '1f1b': it has 0UNSHARD already",
                       ConfigError);
  // Two stages on one rank: gathered for each action, reduced after the last gradients.
  const PipelineSchedule v = make_schedule({.kind = ScheduleKind::zb_v, .ranks = 1, .micro_batches = 1});
  CHECK(
      to_csv(with_sharding(v, UnshardScope::action)) ==
      "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1RESHARD,1UNSHARD,1I0,1RESHARD,1UNSHARD,1W0,1RESHARD,1REDUCE_GRAD,"
      "0UNSHARD,0I0,0RESHARD,0UNSHARD,0W0,0RESHARD,0REDUCE_GRAD\n");
}
