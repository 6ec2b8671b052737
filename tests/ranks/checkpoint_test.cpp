// Checkpoints where ranks are processes: the requirements of tests/dist/checkpoint, which tests threads.

#include <doctest/doctest.h>

#include <cmath>
#include <memory>

#include "dist/checkpoint/background_save.h"
#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/checkpoint/rank_agreement.h"
#include "dist/launch/launch.h"
#include "tests/dist/checkpoint/rank_state.h"
#include "tests/dist/checkpoint/sharded_run.h"

using namespace tessera;
using namespace tessera::dist;
using namespace tessera::test;

namespace {

/// A folder that all ranks of the job see, removed at the end.
class SharedFolder {
 public:
  explicit SharedFolder(Communicator& ranks) : ranks_(ranks) {
    if (ranks.rank() == 0) mine_ = std::make_unique<TemporaryFolder>();
    path_ = broadcast_text(ranks, mine_ ? mine_->path() : "");
  }
  ~SharedFolder() { ranks_.barrier().wait(); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  Communicator& ranks_;
  std::unique_ptr<TemporaryFolder> mine_;
  std::string path_;
};

/// Calls `body(ranks)` on the first `size` ranks, as a group of their own.
template <class Body>
void on_first(Communicator& all, int size, const Body& body) {
  const auto ranks = all.split(all.rank() < size ? 0 : -1, all.rank(), "first");
  if (ranks) body(*ranks);
  all.barrier().wait();
}

}  // namespace

TEST_CASE("ranks as processes: any number of them loads a checkpoint of any other") {
  launch(
      [](World& world) {
        Communicator& all = world.communicator();
        const SharedFolder folder(all);
        RankState saved({0, 1}, 0);
        saved.train(0, 3);
        for (int from = 1; from <= all.size(); ++from) {
          const std::string root = folder / std::to_string(from);
          on_first(all, from, [&](Communicator& ranks) {
            RankState state({from, 1}, ranks.rank());
            state.train(0, 3);
            if (from < all.size()) {
              save_checkpoint(ranks, root, state_at(3), state.groups());
              return;
            }
            BackgroundSave background(world.shared_communicator());
            background.start(root, state_at(3), state.groups());
            state.train(3, 2);
            CHECK(background.wait() == root + "/step-00000003");
          });
          for (int to = 1; to <= all.size(); ++to)
            on_first(all, to, [&](Communicator& ranks) {
              RankState state({to, 1}, ranks.rank());
              load_checkpoint(ranks, *open_checkpoint(ranks, root), state.groups());
              CHECK(agrees_with(state.groups(), saved));
            });
        }
      },
      {.timeout = std::chrono::seconds(60)});
}

TEST_CASE("ranks as processes: an error of one is an error of all, and the previous checkpoint stays") {
  launch(
      [](World& world) {
        Communicator& all = world.communicator();
        const SharedFolder folder(all);
        const int last = all.size() - 1;
        RankState state({all.size(), 1}, all.rank());
        const std::string saved = save_checkpoint(all, folder / "run", state_at(1), state.groups());
        const Tensor mine = state.parameters()[4].variable.value();
        if (all.rank() == last) mine.data<double>()[mine.numel() - 1] = NAN;
        CHECK(contains(refused([&] { save_checkpoint(all, folder / "run", state_at(2), state.groups()); }),
                       "tensor 'out.weight'"));
        CHECK(open_checkpoint(all, folder / "run")->folder() == saved);
      },
      {.timeout = std::chrono::seconds(60)});
}

TEST_CASE("ranks as processes: every strategy loads every other's checkpoint, with equal bits") {
  launch(
      [](World& world) {
        const SharedFolder folder(world.communicator());
        std::vector<Setup> setups;
        const bool has_groups = world.size() % 2 == 0;
        for (const Strategy strategy : strategies) {
          const bool replicates = traits_of(strategy).replicates;
          if (replicates && !has_groups) continue;
          setups.push_back({strategy, replicates ? 2 : 1, replicates ? world.size() / 2 : world.size()});
        }
        for (const Setup& from : setups) {
          const std::string root = folder / name_of(from.strategy);
          ShardedRun run(world, from, 1);
          run.train(0, 2);
          run.save(root + "/from");
          for (const Setup& to : setups) {
            ShardedRun other(world, to, 2);
            other.load(root + "/from");
            other.save(root + "/to");
            CAPTURE(to_string(from));
            CAPTURE(to_string(to));
            if (world.rank() == 0) CHECK(difference(root + "/from", root + "/to") == "");
            world.communicator().barrier().wait();
          }
        }
      },
      {.timeout = std::chrono::seconds(60)});
}
