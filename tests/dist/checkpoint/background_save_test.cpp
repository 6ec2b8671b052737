#include "dist/checkpoint/background_save.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <random>
#include <thread>

#include "dist/checkpoint/distributed_checkpoint.h"
#include "tensor/memory/account.h"
#include "tests/dist/checkpoint/rank_state.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

template <class Body>
void on_ranks(const RankLayout& layout, const Body& body) {
  run_ranks(layout.size(), [&](World& world) {
    RankState state(layout, world.rank());
    BackgroundSave background(world.shared_communicator());
    body(world.communicator(), state, background);
  });
}

}  // namespace

TEST_CASE("background save: saves the values at the call of start, not those of later steps") {
  for (const RankLayout& layout : {RankLayout{1, 1}, RankLayout{3, 1}, RankLayout{2, 2}, RankLayout{0, 2}}) {
    CAPTURE(to_string(layout));
    const TemporaryFolder folder;
    on_ranks(layout, [&](Communicator& world, RankState& state, BackgroundSave& background) {
      for (int64_t step = 0; step < 6; ++step) {
        state.train(step, 1);
        background.start(folder.path(), state_at(step + 1), state.groups());
        CHECK(background.in_flight());
      }
      state.train(6, 5);
      const std::string last = background.wait();
      CHECK(last == folder / "step-00000006");
      CHECK(background.wait() == "");
      for (const int64_t step : {1, 3, 6}) {
        RankState expected({0, 1}, 0), loaded(layout, world.rank());
        expected.train(0, step);
        const auto reader = open_checkpoint(world, folder / step_name(step));
        CHECK(reader->state() == state_at(step));
        load_checkpoint(world, *reader, loaded.groups());
        CHECK(agrees_with(loaded.groups(), expected));
      }
    });
    CHECK(entries_in(folder.path()) == 7);  // six checkpoints and `latest`
    CHECK(entries_in(folder / "step-00000006") == 1 + 2 * static_cast<size_t>(layout.size()));
  }
}

TEST_CASE("background save: the copy is counted, has the size of what the rank writes, and is freed") {
  const TemporaryFolder folder;
  on_ranks({0, 2}, [&](Communicator&, RankState& state, BackgroundSave& background) {
    MemoryAccount& account = *current_account();
    const int64_t before = account.count(MemoryCategory::other).current;
    account.reset_peaks();
    background.start(folder.path(), state_at(1), state.groups());
    background.wait();
    const int64_t copied = account.count(MemoryCategory::other).peak - before;
    int64_t all = 0;
    for (const GroupShard& group : state.groups())
      for (const TensorShard& shard : group.shards) all += shard.tensor.nbytes();
    CHECK(copied >= all / 2);
    CHECK(copied <= all / 2 + 64 * 40);  // every tensor aligned
    CHECK(account.count(MemoryCategory::other).current == before);
  });
}

TEST_CASE(
    "background save: an error is thrown by the next call, on every rank, and the older checkpoint stays") {
  const TemporaryFolder folder;
  on_ranks({3, 1}, [&](Communicator& world, RankState& state, BackgroundSave& background) {
    state.train(0, 1);
    background.start(folder.path(), state_at(1), state.groups());
    background.wait();
    const Tensor values = state.parameters()[4].variable.value();
    const double good = world.rank() == 1 ? values.data<double>()[0] : 0.0;
    if (world.rank() == 1) values.data<double>()[0] = NAN;
    background.start(folder.path(), state_at(2), state.groups());
    if (world.rank() == 1) values.data<double>()[0] = good;
    const std::string message =
        refused([&] { background.start(folder.path(), state_at(3), state.groups()); });
    CHECK(contains(message, "rank 1: "));
    CHECK(contains(message, "tensor 'out.weight': element 0"));
    CHECK_FALSE(background.in_flight());
    world.barrier().wait();
    if (world.rank() == 0) CHECK(list_checkpoints(folder.path()) == std::vector<int64_t>{1});
    if (world.rank() == 0) CHECK(entries_in(folder.path()) == 2);
    world.barrier().wait();
    background.start(folder.path(), state_at(4), state.groups());
    CHECK(background.wait() == folder / "step-00000004");
  });
}

TEST_CASE("background save: too little memory for one rank's copy is an error on all, and starts no save") {
  const TemporaryFolder folder;
  on_ranks({2, 1}, [&](Communicator& world, RankState& state, BackgroundSave& background) {
    std::vector<GroupShard> groups = state.groups();
    const Tensor large = Tensor::zeros({1 << 20}, f32);
    MemoryAccount& account = *current_account();
    if (world.rank() == 1) {
      groups[0].shards.push_back({"large", large.shape(), full_range(large.shape()), large});
      account.set_limit(account.total().current + (1 << 16));
    }
    const std::string message = refused([&] { background.start(folder.path(), state_at(1), groups); });
    CHECK(contains(message, "rank 1: "));
    CHECK_FALSE(background.in_flight());
    account.set_limit(0);
    background.start(folder.path(), state_at(1), groups);
    CHECK(background.wait() == folder / "step-00000001");
  });
}

TEST_CASE("background save: a run that fails abandons its save; the next save removes the incomplete files") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(run_ranks(2,
                              [&](World& world) {
                                RankState state({2, 1}, world.rank());
                                BackgroundSave background(world.shared_communicator());
                                if (world.rank() == 0)
                                  state.parameters()[0].variable.value().data<float>()[0] = NAN;
                                background.start(folder.path(), state_at(1), state.groups());
                                throw std::runtime_error("the forward failed");
                              }),
                    doctest::Contains("the forward failed"));
  CHECK(list_checkpoints(folder.path()).empty());
  save_small(folder.path(), 1, 7);
  CHECK(entries_in(folder.path()) == 2);  // the checkpoint and `latest`
}

TEST_CASE("background save: killed at any moment, the latest checkpoint is complete") {
  const TemporaryFolder folder;
  const std::string root = folder / "run";
  std::mt19937 random(7);
  int64_t step = 0;
  for (int kill = 0; kill < 10; ++kill) {
    // Each time on a different number of ranks, from the latest checkpoint.
    const RankLayout layout{1 + kill % 4, 1};
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      on_ranks(layout, [&](Communicator& world, RankState& state, BackgroundSave& background) {
        if (step > 0) load_checkpoint(world, *open_checkpoint(world, root), state.groups());
        for (int64_t next = step;; ++next) {
          state.train(next, 1);
          background.start(root, state_at(next + 1), state.groups(), {.keep = 3});
        }
      });
      ::_exit(3);
    }
    // Waits for the first checkpoint; after that the time of the kill is random.
    for (int wait = 0; wait < 30000 && step == 0 && list_checkpoints(root).empty(); ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    const CheckpointReader reader(find_checkpoint(root));
    reader.verify();
    REQUIRE(reader.state().step >= step);
    step = reader.state().step;
    RankState expected({0, 1}, 0), loaded({0, 1}, 0);
    expected.train(0, step);
    for (const GroupShard& group : loaded.groups()) read_shards(reader, group);
    CHECK(agrees_with(loaded.groups(), expected));
  }
}
