#include <doctest/doctest.h>

#include <limits>

#include "tests/dist/checkpoint/checkpoint_fixture.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

using Steps = std::vector<int64_t>;

void save(const std::string& root, int64_t step, std::optional<double> loss, int64_t keep) {
  TrainingState state = state_at(step);
  state.validation_loss = loss;
  save_checkpoint(root, state, small_run(1), {.keep = keep});
}

std::string best_of(const std::string& root) {
  return read_latest_or_best(root, best_name).value_or("").substr(root.size() + 1);
}

}  // namespace

TEST_CASE("step_name: eight digits or more, and its inverse") {
  CHECK(step_name(0) == "step-00000000");
  CHECK(step_name(1000) == "step-00001000");
  CHECK(step_name(123456789) == "step-123456789");
  for (int64_t step : {int64_t{0}, int64_t{1000}, int64_t{123456789}})
    CHECK(parse_step_name(step_name(step)) == step);
  for (const char* name :
       {"step-1000", "step-0000100x", "step-000123456789", "step-00001000.tmp-7", "latest", ""})
    CHECK_FALSE(parse_step_name(name).has_value());
}

TEST_CASE("retention: the newest are kept, and always latest and best") {
  const TemporaryFolder folder;
  const std::string root = folder / "run";
  save(root, 10, 2.0, 2);
  save(root, 20, 1.5, 2);
  save(root, 30, 1.7, 2);
  CHECK(list_checkpoints(root) == Steps{20, 30});
  save(root, 40, std::nullopt, 2);
  save(root, 50, 1.6, 2);
  CHECK(list_checkpoints(root) == Steps{20, 40, 50});
  CHECK(best_of(root) == "step-00000020");
  CHECK(find_checkpoint(root) == root + "/step-00000050");
  save(root, 60, 1.4, 1);
  CHECK(list_checkpoints(root) == Steps{60});
  CHECK(best_of(root) == "step-00000060");
}

TEST_CASE("retention: latest is kept when it is not the highest step; 0 keeps all") {
  const TemporaryFolder folder;
  const std::string root = folder / "run";
  for (int64_t step : {10, 20, 30}) save(root, step, std::nullopt, 0);
  CHECK(list_checkpoints(root) == Steps{10, 20, 30});
  save(root, 5, std::nullopt, 1);  // a run resumed from an earlier step
  CHECK(list_checkpoints(root) == Steps{5, 30});
  CHECK(find_checkpoint(root) == root + "/step-00000005");
}

TEST_CASE("best: the lowest finite validation loss, replaced when its own checkpoint is saved again") {
  const TemporaryFolder folder;
  const std::string root = folder / "run";
  save(root, 10, std::numeric_limits<double>::quiet_NaN(), 0);
  CHECK_FALSE(read_latest_or_best(root, best_name).has_value());
  save(root, 20, 3.0, 0);
  save(root, 30, 3.0, 0);
  CHECK(best_of(root) == "step-00000020");
  save(root, 40, -std::numeric_limits<double>::infinity(), 0);
  CHECK(best_of(root) == "step-00000020");
  save(root, 20, 2.5, 0);
  save(root, 50, 2.7, 0);
  CHECK(best_of(root) == "step-00000020");
}

TEST_CASE("find_checkpoint: the newest checkpoint of a run killed before its first `latest` was written") {
  const TemporaryFolder folder;
  const std::string root = folder / "run";
  for (int64_t step : {10, 20}) save(root, step, std::nullopt, 0);
  std::filesystem::remove(root + "/latest");
  CHECK(find_checkpoint(root) == root + "/step-00000020");
}

TEST_CASE("find_checkpoint: errors name what is missing or incomplete") {
  const TemporaryFolder folder;
  const std::string root = folder / "run";
  CHECK(contains(refused([&] { find_checkpoint(root); }),
                 root + ": no such checkpoint or folder of checkpoints"));
  std::filesystem::create_directories(root + "/step-00000001");
  CHECK(contains(refused([&] { find_checkpoint(root); }),
                 root + ": no checkpoint here: expected meta.json or a file"));
  write_bytes(root + "/latest", "step-00000001\n");
  CHECK(contains(refused([&] { find_checkpoint(root); }), "where no complete checkpoint is"));
  write_bytes(root + "/latest", "../../etc\n");
  CHECK(contains(refused([&] { find_checkpoint(root); }),
                 "expected the name of a checkpoint, such as step-00001000"));
}
