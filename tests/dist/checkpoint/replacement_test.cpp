#include <doctest/doctest.h>

#include "tests/dist/checkpoint/checkpoint_fixture.h"

using namespace tessera;
using namespace tessera::dist;

namespace fs = std::filesystem;

TEST_CASE("replacement by renames: the new checkpoint has the name, and nothing else is left") {
  const TemporaryFolder folder;
  const std::string root = folder / "run", other = folder / "other";
  save_small(root, 1, 7);
  fs::rename(save_small(other, 1, 8), root + "/step-00000001.tmp-0123");
  replace_checkpoint_by_renames(root + "/step-00000001.tmp-0123", root, 1);
  const auto loaded = small_run(0);
  load_checkpoint(CheckpointReader(find_checkpoint(root)), loaded);
  CHECK(same_bits(loaded, small_run(8)));
  CHECK(std::distance(fs::directory_iterator(root), {}) == 2);  // the checkpoint and `latest`
}

TEST_CASE("replacement by renames: when it fails, the older checkpoint keeps its name") {
  const TemporaryFolder folder;
  const std::string root = folder / "run", saved = save_small(root, 1, 7);
  CHECK(contains(refused([&] { replace_checkpoint_by_renames(root + "/absent", root, 1); }),
                 "cannot replace the checkpoint"));
  CHECK(find_checkpoint(root) == saved);
  CheckpointReader(saved).verify();
}

TEST_CASE("find_checkpoint: where `latest` names a deleted checkpoint it is the newest, with a note") {
  const TemporaryFolder folder;
  const std::string root = folder / "run";
  TrainingState state = state_at(30);
  state.validation_loss = 1.0;
  for (const int64_t step : {10, 20}) save_small(root, step, 1);
  fs::remove_all(save_checkpoint(root, state, small_run(1)));
  CHECK(find_checkpoint(root) == root + "/step-00000020");
  CHECK(find_checkpoint(root + "/latest") == root + "/step-00000020");
  CHECK(locate_checkpoint(root).note == root +
                                            "/latest names step-00000030, where no complete checkpoint is: "
                                            "step-00000020, the newest, is taken");
  CHECK(locate_checkpoint(root + "/step-00000010").note == "");
  // `best` has no substitute.
  CHECK(contains(refused([&] { find_checkpoint(root + "/best"); }), "where no complete checkpoint is"));
}
