// tessera schedule: what it prints, the files that it writes and reads, and its errors.

#include <doctest/doctest.h>

#include <fstream>
#include <optional>
#include <sstream>

#include "dist/pipeline/generators/schedule_kind.h"
#include "tensor/error.h"
#include "tests/dist/checkpoint/checkpoint_fixture.h"
#include "tests/support/temporary_folder.h"
#include "tools/tessera/pipeline/pipeline_timeline.h"
#include "tools/tessera/pipeline/show_schedule.h"

using namespace tessera;
using namespace tessera::tools;

namespace {

std::string shown(const ScheduleFlags& flags) {
  std::ostringstream out;
  show_schedule(flags, out);
  return out.str();
}

int64_t count(const std::string& output, const std::string& text) {
  int64_t found = 0;
  for (size_t at = 0; (at = output.find(text, at)) != std::string::npos; ++at) ++found;
  return found;
}

}  // namespace

TEST_CASE("tessera schedule: table, memory, time and bubble") {
  CHECK(shown({.stages = 2, .micro_batches = 3}) ==
        "1f1b: 2 stages on 2 ranks, 3 micro-batches, 8 slots\n"
        "\n"
        "slot   0  1  2  3  4  5  6  7\n"
        "rank 0 F0 F1 .  B0 F2 B1 .  B2\n"
        "rank 1 .  F0 B0 F1 B1 F2 B2 .\n"
        "\n"
        "  rank  stages  live at most  computes  idle\n"
        "     0       0             2         9     3\n"
        "     1       1             1         9     3\n"
        "\n"
        "Time of a step: 12. A rank's share of a micro-batch takes F 1, I 1, W 1, B 2; a message 0.\n"
        "Bubble: 25.0 % of all ranks' time, 33.3 % of the time of a perfect pipeline.\n");
}

TEST_CASE("tessera schedule: chunks share a rank's time, so schedules of a model compare") {
  const auto step = [](const char* kind) {
    const std::string output = shown({.kind = kind, .stages = 4, .micro_batches = 8});
    const size_t at = output.find("Time of a step: ") + 16;
    return output.substr(at, output.find(". A rank", at) - at);
  };
  CHECK(step("gpipe") == "33");
  CHECK(step("1f1b") == "33");
  CHECK(step("interleaved") == "28.5");
  CHECK(step("breadth-first") == "28.5");
  CHECK(step("zb-h1") == "27");
  CHECK(step("zb-v") == "25.5");
  CHECK(contains(shown({.forward = 2, .backward_input = 3, .backward_weight = 1, .latency = 0.5}),
                 "takes F 2, I 3, W 1, B 4; a message 0.5."));
}

TEST_CASE(
    "tessera schedule: a CSV that it wrote is read again, and one that is wrong is refused with the cell") {
  const TemporaryFolder folder;
  const std::string csv = folder / "v.csv";
  const std::string written = shown({.kind = "zb-v", .stages = 3, .micro_batches = 4, .csv = csv});
  CHECK(contains(written, "The table: " + csv + "\n"));
  const std::string read = shown({.from_csv = csv});
  CHECK(read.substr(read.find(": 6 stages")) + "The table: " + csv + "\n" ==
        written.substr(written.find(": 6 stages")));
  CHECK_THROWS_WITH_AS(shown({.most_live = 5, .from_csv = csv}),
                       doctest::Contains("rank 1, slot 6 (4F1): 6 micro-batches are live, of at most 5"),
                       ConfigError);

  std::ofstream(csv) << "0F0,0B0\n1F0\n";
  CHECK_THROWS_WITH_AS(
      shown({.from_csv = csv}),
      doctest::Contains("rank 1, slot 0 (1F0): micro-batch 0 has no backward through stage 1"), ConfigError);
  CHECK_THROWS_WITH_AS(shown({.from_csv = folder / "."}),
                       ("schedule: '" + (folder / ".") + "' is a directory: expected a CSV file").c_str(),
                       ConfigError);
  std::ofstream(csv) << "0F0,\x7f\x45\n";
  CHECK_THROWS_WITH_AS(
      shown({.from_csv = csv}),
      ("schedule: '" + csv + "' is no CSV file of actions: byte 4 is 127, which no action has").c_str(),
      ConfigError);
  CHECK_THROWS_WITH_AS(shown({.from_csv = folder / "none.csv"}), doctest::Contains("schedule: cannot read '"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(shown({.csv = folder / "none/x.csv"}), doctest::Contains("schedule: cannot write '"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(shown({.unshard = "always"}),
                       "schedule: expected --unshard step or action, got 'always'", ConfigError);
  CHECK_THROWS_WITH_AS(shown({.most_live = -1}), "schedule: expected --most-live of 0 or more, got -1",
                       ConfigError);
  CHECK_THROWS_WITH_AS(shown({.forward = -1}), doctest::Contains("expected times of 0 or more, got -1"),
                       ConfigError);
}

TEST_CASE("tessera schedule: the chapter's tables are those that its commands print") {
  const std::string chapter = file_bytes(std::string(TESSERA_TEST_DATA_DIR) + "/../dist/pipeline/README.md");
  const ScheduleFlags commands[] = {{.kind = "gpipe", .stages = 4, .micro_batches = 6},
                                    {.kind = "1f1b", .stages = 4, .micro_batches = 6},
                                    {.kind = "interleaved", .stages = 2, .micro_batches = 4, .chunks = 2},
                                    {.kind = "breadth-first", .stages = 2, .micro_batches = 4, .chunks = 2},
                                    {.kind = "zb-h1", .stages = 4, .micro_batches = 6},
                                    {.kind = "zb-v", .stages = 2, .micro_batches = 3}};
  for (const ScheduleFlags& flags : commands) {
    CAPTURE(flags.kind);
    std::string expected = "    build/release/bin/tessera schedule --kind " + flags.kind + " --stages " +
                           std::to_string(flags.stages) + " --micro-batches " +
                           std::to_string(flags.micro_batches) +
                           (flags.chunks > 0 ? " --chunks " + std::to_string(flags.chunks) : "") + "\n\n";
    std::istringstream output(shown(flags));
    std::string line;
    std::getline(output, line), std::getline(output, line);  // the title and an empty line
    while (std::getline(output, line) && !line.empty()) expected += "    " + line + "\n";
    CHECK(contains(chapter, expected));
  }
}

TEST_CASE("tessera schedule: messages and sharding are cells of the table") {
  const std::string output = shown({.stages = 2, .micro_batches = 1, .messages = true, .unshard = "action"});
  CHECK(contains(output,
                 "rank 0 UNSHARD F0      RESHARD SEND_F0 RECV_B0 UNSHARD B0      RESHARD     REDUCE_GRAD\n"
                 "rank 1 RECV_F0 UNSHARD F0      RESHARD UNSHARD B0      RESHARD REDUCE_GRAD SEND_B0\n"));
  CHECK(contains(output, "Time of a step: 6."));
}

TEST_CASE("tessera schedule: the timeline has a box for every action, at its time") {
  const TemporaryFolder folder;
  const std::string svg = folder / "timeline.svg";
  CHECK(contains(shown({.kind = "zb-h1", .stages = 3, .micro_batches = 4, .svg = svg}),
                 "The timeline: " + svg + "\n"));
  const std::string picture = file_bytes(svg);
  CHECK(picture.starts_with("<svg "));
  CHECK(picture.ends_with("</svg>\n"));
  CHECK(count(picture, "<title>") == 3 * 4 * 3);
  CHECK(count(picture, "<title>2W3: 13 to 14</title>") == 1);
  CHECK(contains(picture, ">zb-h1: 3 stages on 3 ranks, 4 micro-batches, bubble 14.3 %<"));
  for (const char* rank : {">rank 0<", ">rank 1<", ">rank 2<"}) CHECK(count(picture, rank) == 1);
  CHECK(count(picture, "height=\"24.00\" fill=\"url(#bubble)\"") == 3);

  // Two time units on 1120 points: the forward on the left half, of stage 0 from x = 70.
  const dist::PipelineSchedule schedule =
      dist::make_schedule({.kind = dist::ScheduleKind::gpipe, .ranks = 1, .micro_batches = 1});
  const std::string small =
      pipeline_timeline(schedule, dist::simulate(schedule, {.stages = {{1, 1, 0}}}), "a < b & c");
  CHECK(contains(small, "<rect x=\"70.00\" y=\"36.00\" width=\"560.00\" height=\"24.00\" fill=\"#5b9bd5\""));
  CHECK(contains(small, "<rect x=\"630.00\" y=\"36.00\" width=\"560.00\" height=\"24.00\" fill=\"#4ea866\""));
  CHECK(contains(small, ">a &lt; b &amp; c<"));
}

namespace {

/// A trace of a step of 1F1B on two ranks with two micro-batches: F 1 ms, B 2 ms, and a step before it.
/// With `only` a rank's part of it, as its process writes it: from its first span on.
std::string traced_step(const std::string& left_out = "", std::optional<int> only = {}) {
  struct Timed {
    int rank;
    const char* name;
    int begin, milliseconds;
  };
  constexpr Timed actions[] = {{0, "0F0", 0, 1}, {0, "0F1", 1, 1}, {1, "1F0", 1, 1}, {1, "1B0", 2, 2},
                               {0, "0B0", 4, 2}, {1, "1F1", 4, 1}, {1, "1B1", 5, 2}, {0, "0B1", 7, 2}};
  std::string events;
  const int begin = only == 1 ? 1 : 0;
  for (const int rank : {0, 1})
    events += text("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":", rank, ",\"tid\":", 3 + rank,
                   ",\"args\":{\"name\":\"pipeline\"}},");
  for (const int step : {0, 1})
    for (const Timed& timed : actions)
      if (timed.name != left_out && (!only || *only == timed.rank))
        events += text("{\"ph\":\"X\",\"name\":\"", timed.name, "\",\"pid\":", timed.rank,
                       ",\"tid\":", 3 + timed.rank, ",\"ts\":", 1000 * (100 * step + timed.begin - begin),
                       ",\"dur\":", 1000 * timed.milliseconds, "},");
  // A row of another name holds spans of other things.
  events += "{\"ph\":\"X\",\"name\":\"0F0\",\"pid\":0,\"tid\":0,\"ts\":0,\"dur\":9000000}";
  const std::string clock =
      only ? text(",\"otherData\":{\"clock_begin_ns\":\"", 9'000'000'000'000'000 + begin * 1'000'000, "\"}")
           : "";
  return "{\"traceEvents\":[" + events + "]" + clock + "}";
}

}  // namespace

TEST_CASE("tessera schedule: a run's trace beside the simulated step") {
  const TemporaryFolder folder;
  std::ofstream(folder / "trace.json") << traced_step();
  const std::string output = shown(
      {.stages = 2, .micro_batches = 2, .svg = folder / "timeline.svg", .traces = {folder / "trace.json"}});
  CHECK(output.find("Measured: the actions of a step take 9.00 ms, bubble 33.3 %.\n"
                    "  rank  computes, ms  idle, ms  share   simulated\n"
                    "     0          6.00      3.00  66.7 %  66.7 %\n"
                    "     1          6.00      3.00  66.7 %  66.7 %\n") != std::string::npos);
  const std::string svg = file_bytes(folder / "timeline.svg");
  CHECK(svg.find("measured, in ms: bubble 33.3 %") != std::string::npos);
  CHECK(count(svg, "<title>0B1: 7 to 9</title>") == 2);  // both have the same times
}

TEST_CASE("tessera schedule: traces of several processes are aligned by the clock of their machine") {
  const TemporaryFolder folder;
  std::ofstream(folder / "trace.0.json") << traced_step("", 0);
  std::ofstream(folder / "trace.1.json") << traced_step("", 1);
  for (const auto& paths : {std::vector<std::string>{folder / "trace.0.json", folder / "trace.1.json"},
                            {folder / "trace.1.json", folder / "trace.0.json"}}) {
    const std::string output = shown({.stages = 2, .micro_batches = 2, .traces = paths});
    CHECK(output.find("Measured: the actions of a step take 9.00 ms, bubble 33.3 %.\n") != std::string::npos);
  }
}

TEST_CASE("tessera schedule: traces of other things are refused") {
  const TemporaryFolder folder;
  std::ofstream(folder / "trace.json") << traced_step("1B1");
  std::ofstream(folder / "text.json") << "no trace";
  const auto show = [&](const char* file) {
    return shown({.stages = 2, .micro_batches = 2, .traces = {folder / file}});
  };
  CHECK_THROWS_WITH_AS(
      show("trace.json"),
      text("trace '", folder / "trace.json",
           "': expected a run of '1f1b' with 2 ranks and 2 micro-batches, got none of 1B1 on rank 1")
          .c_str(),
      ConfigError);
  std::ofstream(folder / "whole.json") << traced_step("");
  CHECK_THROWS_WITH_AS(shown({.stages = 2, .micro_batches = 1, .traces = {folder / "whole.json"}}),
                       text("trace '", folder / "whole.json",
                            "': expected a run of '1f1b' with 2 ranks and 1 micro-batches, got 0B1 on rank 0")
                           .c_str(),
                       ConfigError);
  CHECK_THROWS_WITH_AS(
      show("text.json"),
      text("trace '", folder / "text.json", "': expected a trace in Chrome's format, got no JSON").c_str(),
      ConfigError);
  for (const char* events : {"[1, 2]", "[{\"ph\": \"X\", \"pid\": \"a\"}]"}) {
    std::ofstream(folder / "types.json") << "{\"traceEvents\": " << events << "}";
    CHECK_THROWS_AS(show("types.json"), ConfigError);
  }
  CHECK_THROWS_WITH_AS(show("none.json"), text("trace: cannot read '", folder / "none.json", "'").c_str(),
                       ConfigError);
}
