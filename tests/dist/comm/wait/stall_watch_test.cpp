#include "dist/comm/wait/stall_watch.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include "dist/comm/interface/errors.h"

namespace {

using namespace tessera;
using namespace tessera::dist;
using std::chrono::milliseconds;

/// The detector of rank 0 among ranks 0 to 4 with a timeout of 100 ms, and what the others report.
struct Ranks {
  std::vector<RankReport> reports = std::vector<RankReport>(5);
  StallDetector detector{
      0, {0, 1, 2, 3, 4}, milliseconds(100), [this](int rank) { return reports[static_cast<size_t>(rank)]; }};

  /// The rank that is stuck `time` ms after the start, while rank 0 waits for `rank`; -1: none.
  int stuck(int rank, int time) {
    const StallDetector::Clock::time_point start{};
    return detector.find_stuck(rank, start + milliseconds(time)).value_or(-1);
  }
};

}  // namespace

TEST_CASE("stall detector: a rank that makes progress is never stuck; another is after the timeout") {
  Ranks ranks;
  for (int time = 0; time < 1000; time += 90) {
    ++ranks.reports[1].operations;
    CHECK(ranks.stuck(1, time) == -1);
  }
  CHECK(ranks.stuck(1, 1089) == -1);
  CHECK(ranks.stuck(1, 1090) == 1);
  ranks.detector.end_wait();
  CHECK(ranks.stuck(1, 2000) == -1);  // a new wait
  CHECK(ranks.stuck(1, 2100) == 1);
}

TEST_CASE("stall detector: of a chain of waiting ranks the last one is stuck") {
  Ranks ranks;
  ranks.reports[1].waits_for = 2;
  ranks.reports[2].waits_for = 3;
  CHECK(ranks.stuck(1, 0) == -1);
  ++ranks.reports[3].operations;
  CHECK(ranks.stuck(1, 90) == -1);
  CHECK(ranks.stuck(1, 189) == -1);
  CHECK(ranks.stuck(1, 190) == 3);
  ranks.reports[3].waits_for = 4;  // it waited until now, and is not stuck when that wait ends
  CHECK(ranks.stuck(1, 195) == 4);
  ranks.reports[3].waits_for = -1;
  CHECK(ranks.stuck(1, 200) == -1);
}

TEST_CASE(
    "stall detector: where ranks reach the call one after another the last is found after one timeout") {
  Ranks ranks;
  CHECK(ranks.stuck(1, 0) == -1);
  for (int rank = 1; rank <= 3; ++rank) {
    RankReport& report = ranks.reports[static_cast<size_t>(rank)];
    ++report.operations;
    report.waits_for = rank + 1;
    CHECK(ranks.stuck(1, 30 * rank) == -1);
  }
  CHECK(ranks.stuck(1, 99) == -1);
  CHECK(ranks.stuck(1, 100) == 4);
}

TEST_CASE("stall detector: ranks that wait in a circle are stuck once none of them changes") {
  Ranks ranks;
  ranks.reports[2].waits_for = 3;
  ranks.reports[3].waits_for = 1;
  ranks.reports[1].waits_for = 2;
  CHECK(ranks.stuck(2, 0) == -1);
  ++ranks.reports[2].operations;
  CHECK(ranks.stuck(2, 90) == -1);
  CHECK(ranks.stuck(2, 100) == -1);
  CHECK(ranks.stuck(2, 190) == 1);
  ranks.reports[3].waits_for = 0;  // in a circle with this rank, which waits itself
  CHECK(ranks.stuck(2, 200) == -1);
  CHECK(ranks.stuck(2, 300) == 3);
}

TEST_CASE("stall watch: a stuck rank is reported as lost, with the call that waits for it") {
  std::vector<RankReport> reports(3);
  StallWatch watch(0, {0, 1, 2}, milliseconds(0),
                   [&](int rank) { return reports[static_cast<size_t>(rank)]; });
  const CallHeader call{.sequence = 3, .kind = CallKind::barrier};
  const auto lost = [&] {
    try {
      watch.check(1, call);
    } catch (const RankLostError& error) {
      CHECK(std::string(error.what()).find("barrier #3") != std::string::npos);
      return error.rank;
    }
    return -1;
  };
  CHECK(lost() == 1);
  reports[1].waits_for = 2;
  CHECK(lost() == 2);
}
