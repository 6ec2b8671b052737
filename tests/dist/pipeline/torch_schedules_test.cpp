// The generated schedules against those of torch.distributed.pipelining (torch_schedules/make_goldens.py).

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "dist/pipeline/generators/schedule_kind.h"
#include "dist/pipeline/schedule/csv.h"
#include "dist/pipeline/simulation/check.h"

using namespace tessera;
using namespace tessera::dist;

TEST_CASE("pipeline schedules: the order of actions of every rank is PyTorch's") {
  const std::filesystem::path folder =
      std::filesystem::path(TESSERA_TEST_DATA_DIR) / "dist/pipeline/torch_schedules";
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".csv") continue;
    CAPTURE(entry.path().string());
    std::istringstream stem(entry.path().stem().string());
    std::string kind;
    ScheduleOptions options;
    char underscore = 0;
    std::getline(stem, kind, '_');
    stem >> options.ranks >> underscore >> options.micro_batches >> underscore >> options.chunks;
    REQUIRE(stem);
    options.kind = parse_schedule_kind(kind);

    std::ifstream file(entry.path());
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    const PipelineSchedule torch = parse_schedule_csv(content, kind);
    check_schedule(torch);
    const PipelineSchedule ours = make_schedule(options);
    CHECK(ours.stage_ranks == torch.stage_ranks);
    REQUIRE(ours.ranks() == torch.ranks());
    for (int rank = 0; rank < ours.ranks(); ++rank) CHECK(ours.actions(rank) == torch.actions(rank));
    ++compared;
  }
  CHECK(compared == 19);
}
