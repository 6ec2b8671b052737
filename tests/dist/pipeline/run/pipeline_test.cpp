// Pipelines of ranks that are threads, against one device.

#include <doctest/doctest.h>

#include "dist/pipeline/schedule/csv.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/pipeline/run/pipeline_matrix.h"

using namespace tessera;

// The second step of each comparison has delays at random places.
TEST_CASE(
    "pipeline: every schedule, 1 to 4 ranks, has losses and gradients of one device, and one set of bits") {
  for (const int ranks : {1, 2, 3, 4}) test::require_no_problems(ranks, test::check_all_schedules);
}

TEST_CASE("pipeline: stages that are sharded by every strategy, 2 x 2 and 2 x 2 x 2") {
  test::require_no_problems(4, test::check_sharded_stages);
  test::require_no_problems(8, test::check_sharded_stages);
}

TEST_CASE("pipeline: a table from a file, one stage a rank in an order of its own") {
  const auto table = [](int micro_batches) {
    std::string first, second;
    for (int m = micro_batches - 1; m >= 0; --m) {
      first += text(first.empty() ? "" : ",", "0F", m);
      second += text(second.empty() ? "" : ",", "1F", m, ",1B", m);
    }
    for (int m = micro_batches - 1; m >= 0; --m) first += text(",0B", m);
    return dist::parse_schedule_csv(first + "\n" + second + "\n", "descending");
  };
  test::require_no_problems(2, [&](dist::World& world) {
    return test::check_pipeline(world, {.mesh = dist::pipeline_mesh(world, 2), .table = table});
  });
}

TEST_CASE("pipeline: checkpointed segments of layers change nothing, with dropout and sharded stages too") {
  test::require_no_problems(4, [](dist::World& world) {
    std::vector<std::string> problems;
    for (const int64_t interval : {1, 3})
      for (const dist::Strategy strategy : {dist::Strategy::shard_grad_op, dist::Strategy::full_shard})
        for (std::string& problem :
             test::check_pipeline(world,
                                  {.mesh = dist::pipeline_mesh(world, 2),
                                  .schedule = dist::ScheduleKind::zb_h1,
                                  .checkpointing = {.interval = interval, .keep = {"self_attention"}}},
                                  strategy))
          problems.push_back(text(interval, ", ", dist::name_of(strategy), ": ", problem));
    return problems;
  });
}

TEST_CASE("pipeline: every way to cut the layers") {
  test::require_no_problems(3, [](dist::World& world) {
    std::vector<std::string> problems;
    for (const char* method : {"uniform", "type:block", "memory", "0,1,7,8"})
      for (std::string& problem : test::check_pipeline(
               world,
               {.mesh = dist::pipeline_mesh(world, 3), .partition = dist::parse_partition_method(method)}))
        problems.push_back(text(method, ": ", problem));
    return problems;
  });
}
