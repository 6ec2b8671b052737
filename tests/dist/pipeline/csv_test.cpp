#include "dist/pipeline/schedule/csv.h"

#include <doctest/doctest.h>

#include <fstream>
#include <random>

#include "dist/pipeline/generators/lowering.h"
#include "dist/pipeline/simulation/check.h"
#include "tensor/error.h"
#include "tests/dist/pipeline/all_schedules.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::dist;

TEST_CASE("pipeline actions: every kind as a cell and back") {
  const PipelineAction actions[] = {{ActionKind::forward, 0, 3},
                                    {ActionKind::backward, 12, 0},
                                    {ActionKind::backward_input, 1, 10},
                                    {ActionKind::backward_weight, 1, 1},
                                    {ActionKind::send_forward, 2, 1},
                                    {ActionKind::recv_forward, 3, 1},
                                    {ActionKind::send_backward, 3, 1},
                                    {ActionKind::recv_backward, 2, 1},
                                    {ActionKind::unshard, 4},
                                    {ActionKind::reshard, 4},
                                    {ActionKind::reduce_grad, 4}};
  std::string cells;
  for (const PipelineAction& action : actions) {
    CHECK(parse_action(to_string(action)) == action);
    cells += to_string(action) + " ";
  }
  CHECK(cells == "0F3 12B0 1I10 1W1 2SEND_F1 3RECV_F1 3SEND_B1 2RECV_B1 4UNSHARD 4RESHARD 4REDUCE_GRAD ");
  for (const char* cell : {"", "F", "F3", "0F", "0F-1", "-1F0", "0X3", "0F3 ", "0f3", "0UNSHARD1",
                           "0F99999999999", "3", "0FB0", "0F0B"})
    CHECK_THROWS_WITH_AS(parse_action(cell), doctest::Contains("' is no action: expected a stage, F, B, "),
                         ConfigError);
}

TEST_CASE("pipeline csv: every schedule is read as it was written") {
  for_all_schedules([](const ScheduleOptions& o) {
    const PipelineSchedule schedule = make_schedule(o);
    const PipelineSchedule read = parse_schedule_csv(to_csv(schedule), schedule.name);
    CHECK(read.stages == schedule.stages);
    CHECK(read.micro_batches == schedule.micro_batches);
    CHECK(read.stage_ranks == schedule.stage_ranks);
    CHECK(read.rows == schedule.rows);
  });
}

TEST_CASE("pipeline csv: a file is read with its path as name, and what is none is refused") {
  const TemporaryFolder folder;
  const std::string path = folder / "mine.csv";
  std::ofstream(path) << "0F0,0B0\n";
  CHECK(read_schedule_csv(path).name == path);
  CHECK(to_csv(read_schedule_csv(path)) == "0F0,0B0\n");
  std::ofstream(path) << "0F0,\x01";
  CHECK_THROWS_WITH_AS(read_schedule_csv(path),
                       doctest::Contains("' is no CSV file of actions: byte 4 is 1, which no action has"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(read_schedule_csv(folder / "none.csv"), doctest::Contains("schedule: cannot read '"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(read_schedule_csv(folder / "."), doctest::Contains("is a directory"), ConfigError);
}

TEST_CASE("pipeline csv: the stages of any schedule run other numbers of micro-batches") {
  for_all_schedules([](const ScheduleOptions& o) {
    const PipelineSchedule schedule = make_schedule(o);
    for (const int count : {1, 3}) {
      const PipelineSchedule other = gpipe_like(schedule, count);
      check_schedule(other);
      CHECK(other.stage_ranks == schedule.stage_ranks);
      CHECK(other.micro_batches == count);
    }
  });
  CHECK_THROWS_AS(gpipe_like(make_schedule({}), 0), ConfigError);
}

TEST_CASE("pipeline csv: blanks, empty lines, line ends and quotes of spreadsheets") {
  const PipelineSchedule schedule = parse_schedule_csv(" 0F0 ,\"0B0\"\r\n\r\n,1F0,1B0", "x");
  CHECK(to_csv(schedule) == "0F0,0B0\n,1F0,1B0\n");
  CHECK(schedule.stage_ranks == std::vector<int>{0, 1});
}

TEST_CASE("pipeline csv: what is no schedule is refused with its cell") {
  const auto throws = [](const char* content, const char* message) {
    CHECK_THROWS_WITH_AS(parse_schedule_csv(content, "x"), doctest::Contains(message), ConfigError);
  };
  throws("0F0,0B0\n1F0,1X0\n", "schedule 'x': rank 1, slot 1: '1X0' is no action");
  throws("", "schedule 'x': expected a line of cells for each rank, got none");
  throws("0F0,0B0\n,,\n", "schedule 'x': rank 1 has no actions");
  throws("0F0,0B0\n1F0,0B0\n", "schedule 'x': rank 1, slot 1 (0B0): stage 0 is on rank 0 too");
  throws("0F0,2F0,0B0,2B0\n", "schedule 'x': no rank has stage 1, of 3 stages");
  throws("0F0,0F1000000\n",
         "schedule 'x': rank 0, slot 1 (0F1000000): expected stages and micro-batches below 1000000");
}

TEST_CASE("pipeline csv: numbers far apart cost no memory, and random text is read or refused") {
  CHECK_THROWS_WITH_AS(check_schedule(parse_schedule_csv("0F999999,0B999999,1F0,1B0\n", "x")),
                       "schedule 'x': rank 0: no forward 0F0", ConfigError);
  std::mt19937 random(1);
  const std::string letters = "0123FBIW,,\n 9SEND_";
  int read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string content;
    for (size_t length = random() % 24; content.size() < length;)
      content += letters[random() % letters.size()];
    try {
      check_schedule(parse_schedule_csv(content, "x"));
      ++read;
    } catch (const ConfigError&) {
      continue;
    }
  }
  CHECK(read < 20000);
}
