#include "dist/checkpoint/rank_save.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "dist/checkpoint/background_save.h"
#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/checkpoint/rank_agreement.h"
#include "tests/dist/checkpoint/rank_state.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

/// The moments at which a run is killed, in order.
enum Moment { started, rank_0_written, written, published };

/// Saves step 2 on two ranks up to a moment, and kills this process.
void save_until(const std::string& root, Moment moment) {
  run_ranks(2, [&](World& world) {
    Communicator& ranks = world.communicator();
    const RankState state({2, 1}, world.rank());
    RankSave save(ranks, root, 2, state.groups());
    const std::vector<GroupShard> shards = save.take_shards();
    std::string records;
    if (moment >= written || (moment == rank_0_written && world.rank() == 0)) records = save.write(shards);
    if (moment == published) save.publish(gather_texts(ranks, records), state_at(2), {});
    ranks.barrier().wait();
    ::kill(::getpid(), SIGKILL);
  });
}

}  // namespace

TEST_CASE(
    "rank save: killed in any state, the latest checkpoint is complete; the next save removes the rest") {
  for (const Moment moment : {started, rank_0_written, written, published}) {
    CAPTURE(moment);
    const TemporaryFolder folder;
    const std::string root = folder / "run";
    save_small(root, 1, 1);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      save_until(root, moment);
      ::_exit(3);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    REQUIRE(WTERMSIG(status) == SIGKILL);

    const bool is_new = moment == published;
    const CheckpointReader reader(find_checkpoint(root));
    reader.verify();
    CHECK(reader.state().step == (is_new ? 2 : 1));
    CHECK(list_checkpoints(root).size() == (is_new ? 2 : 1));
    CHECK(entries_in(root) == 3);  // two checkpoints, or one and the temporary folder; `latest`
    save_small(root, 3, 1);
    CHECK(entries_in(root) == (is_new ? 4 : 3));
  }
}

TEST_CASE("rank save: an error in publishing is thrown on all ranks, and the older checkpoint stays") {
  for (const bool in_background : {false, true}) {
    CAPTURE(in_background);
    const TemporaryFolder folder;
    save_small(folder.path(), 1, 1);
    run_ranks(3, [&](World& world) {
      // Rank 2 has no shard and writes no file, so that a third of the tensor is missing.
      const Shape shape{12};
      const int64_t first = 4 * world.rank();
      std::vector<GroupShard> groups{{"model", {}}};
      if (world.rank() < 2)
        groups[0].shards.push_back({"w", shape, flat_range(shape, first, first + 4), numbered({4}, 1)});
      BackgroundSave background(world.shared_communicator());
      const std::string message = refused([&] {
        if (in_background) {
          background.start(folder.path(), state_at(2), groups);
          background.wait();
        } else {
          save_checkpoint(world.communicator(), folder.path(), state_at(2), groups);
        }
      });
      CHECK(contains(message, "rank 0: "));
      CHECK(contains(message, "element 8 is in no file"));
    });
    CHECK(list_checkpoints(folder.path()) == std::vector<int64_t>{1});
    CHECK(entries_in(folder.path()) == 2);  // the checkpoint and `latest`
  }
}
