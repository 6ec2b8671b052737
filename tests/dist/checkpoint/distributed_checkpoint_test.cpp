#include "dist/checkpoint/distributed_checkpoint.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>

#include "dist/checkpoint/background_save.h"
#include "dist/checkpoint/rank_agreement.h"
#include "tensor/memory/account.h"
#include "tests/dist/checkpoint/rank_state.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

const RankLayout layouts[] = {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {8, 1}, {0, 3}, {2, 2}, {2, 4}};

/// Runs `body(world, state)` on every rank of a layout.
void on_ranks(const RankLayout& layout, const std::function<void(Communicator&, RankState&)>& body) {
  run_ranks(layout.size(), [&](World& world) {
    RankState state(layout, world.rank());
    body(world.communicator(), state);
  });
}

std::string save(const RankLayout& layout, const std::string& root, int64_t steps) {
  std::string folder;
  on_ranks(layout, [&](Communicator& world, RankState& state) {
    state.train(0, steps);
    const std::string name = save_checkpoint(world, root, state_at(steps), state.groups());
    if (world.rank() == 0) folder = name;
  });
  return folder;
}

}  // namespace

TEST_CASE(
    "distributed checkpoint: any number of ranks loads that of any other, and continues with the same bits") {
  RankState saved({0, 1}, 0), continued({0, 1}, 0);
  saved.train(0, 3);
  continued.train(0, 5);
  for (const RankLayout& from : layouts) {
    const TemporaryFolder folder;
    CHECK(save(from, folder.path(), 3) == folder / "step-00000003");
    for (const RankLayout& to : layouts) {
      CAPTURE(to_string(from));
      CAPTURE(to_string(to));
      on_ranks(to, [&](Communicator& world, RankState& state) {
        const auto reader = open_checkpoint(world, folder.path());
        CHECK(reader->state() == state_at(3));
        load_checkpoint(world, *reader, state.groups());
        CHECK(agrees_with(state.groups(), saved));
        state.train(3, 2);
        CHECK(agrees_with(state.groups(), continued));
      });
    }
  }
}

TEST_CASE("distributed checkpoint: one process and many write and read the same") {
  const TemporaryFolder folder;
  RankState undistributed({0, 1}, 0), loaded({0, 1}, 0);
  undistributed.train(0, 3);
  const auto tensors = [](const RankState& state) {
    std::vector<TensorGroup> groups;
    for (const GroupShard& group : state.groups()) {
      groups.push_back({group.name, {}});
      for (const TensorShard& shard : group.shards)
        groups.back().tensors.push_back({shard.name, shard.tensor});
    }
    return groups;
  };
  save_checkpoint(folder / "one", state_at(3), tensors(undistributed));
  on_ranks({3, 1}, [&](Communicator& world, RankState& state) {
    load_checkpoint(world, *open_checkpoint(world, folder / "one"), state.groups());
    CHECK(agrees_with(state.groups(), undistributed));
  });
  const CheckpointReader many(save({4, 1}, folder / "many", 3));
  load_checkpoint(many, tensors(loaded));
  CHECK(agrees_with(loaded.groups(), undistributed));
  // A world of one rank writes the same files as a process without a world.
  save({1, 1}, folder / "world", 3);
  CHECK(std::filesystem::exists(folder / "world/step-00000003/model.safetensors"));
}

TEST_CASE("distributed checkpoint: each element is written once, and all replicas write") {
  for (const RankLayout& layout : {RankLayout{4, 1}, RankLayout{0, 4}, RankLayout{2, 2}}) {
    CAPTURE(to_string(layout));
    const TemporaryFolder folder;
    const CheckpointReader reader(save(layout, folder.path(), 1));
    int64_t elements = 0;
    for (const FileRecord& file : reader.files())
      for (const Chunk& chunk : file.chunks) elements += chunk.range.numel();
    int64_t expected = 0;
    for (const auto& [id, tensor] : reader.tensors()) expected += tensor.shape.numel();
    CHECK(elements == expected);
    CHECK(reader.files().size() == 8);  // four ranks, two groups
  }
}

TEST_CASE("distributed checkpoint: the model alone, and a missing optimizer") {
  const TemporaryFolder folder;
  RankState saved({0, 1}, 0);
  saved.train(0, 3);
  save({3, 1}, folder.path(), 3);
  on_ranks({2, 1}, [&](Communicator& world, RankState& state) {
    const std::vector<GroupShard> groups = state.groups();
    const auto reader = open_checkpoint(world, folder.path());
    load_checkpoint(world, *reader, {groups.data(), 1});
    CHECK(agrees_with({groups[0]}, saved));
    CHECK(agrees_with({groups[1]}, RankState({0, 1}, 0)));
    const std::string only = save_checkpoint(world, folder / "model", state_at(1), {groups.data(), 1});
    const auto without = open_checkpoint(world, only);
    CHECK(contains(refused([&] { load_checkpoint(world, *without, groups); }),
                   "has no tensor 'optimizer/exp_avg/fc.weight'"));
    load_checkpoint(world, *without, {groups.data(), 1});
  });
}

TEST_CASE("distributed checkpoint: damage in any rank's file is refused by all ranks, and none loads") {
  const TemporaryFolder folder;
  const std::string saved = save({3, 1}, folder.path(), 3);
  for (int writer = 0; writer < 3; ++writer) {
    const std::string path = text(saved, "/model-rank-", writer, ".safetensors"), good = file_bytes(path);
    std::string bad = good;
    bad.back() = static_cast<char>(bad.back() ^ 1);
    write_bytes(path, bad);
    on_ranks({4, 1}, [&](Communicator& world, RankState& state) {
      const auto reader = open_checkpoint(world, folder.path());
      CHECK(contains(refused([&] { load_checkpoint(world, *reader, state.groups()); }),
                     path + ": its content is not what was written"));
      CHECK(agrees_with(state.groups(), RankState({0, 1}, 0)));
    });
    write_bytes(path, good);
  }
  std::filesystem::remove(saved + "/optimizer-rank-1.safetensors");
  on_ranks({2, 1}, [&](Communicator& world, RankState&) {
    CHECK(contains(refused([&] { open_checkpoint(world, folder.path()); }),
                   "optimizer-rank-1.safetensors: cannot open"));
    CHECK(contains(refused([&] { open_checkpoint(world, folder / "gone"); }), "no such checkpoint"));
  });
}

TEST_CASE("distributed checkpoint: NaN on one rank ends the save on all; the older checkpoint stays") {
  const TemporaryFolder folder;
  const std::string saved = save({3, 1}, folder.path(), 3);
  on_ranks({3, 1}, [&](Communicator& world, RankState& state) {
    state.train(0, 4);
    if (world.rank() == 1) state.parameters()[4].variable.value().data<double>()[2] = NAN;
    const std::string message =
        refused([&] { save_checkpoint(world, folder.path(), state_at(4), state.groups()); });
    CHECK(contains(message, "rank 1: "));
    CHECK(contains(message, "tensor 'out.weight': element 2"));
    CHECK(contains(message, "is NaN: not saved"));
  });
  CHECK(find_checkpoint(folder.path()) == saved);
  CHECK(entries_in(folder.path()) == 2);  // the checkpoint and `latest`
}

TEST_CASE("distributed checkpoint: a file or folder that one rank cannot write is an error on all") {
  const TemporaryFolder folder;
  const std::string saved = save({3, 1}, folder.path(), 3);
  write_bytes(folder / "plain", "x");
  on_ranks({2, 1}, [&](Communicator& world, RankState& state) {
    CHECK(
        contains(refused([&] { save_checkpoint(world, folder / "plain/run", state_at(1), state.groups()); }),
                 "rank 0: " + (folder / "plain/run") + ": cannot make the folder"));
  });
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // A limit on the size of files fails in the same call as a full disk; rank 2 alone reaches it.
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 16, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::atomic<int> refused_ranks{0};
    on_ranks({3, 1}, [&](Communicator& world, RankState& state) {
      std::vector<GroupShard> groups = state.groups();
      const Tensor large = Tensor::zeros({1 << 20}, f32);
      if (world.rank() == 2)
        groups[0].shards.push_back({"large", large.shape(), full_range(large.shape()), large});
      const std::string message =
          refused([&] { save_checkpoint(world, folder.path(), state_at(4), groups); });
      refused_ranks +=
          contains(message, "rank 2: ") && contains(message, "model-rank-2.safetensors: cannot write");
    });
    ::_exit(refused_ranks == 3 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(find_checkpoint(folder.path()) == saved);
  CHECK(entries_in(folder.path()) == 3);  // and `plain`
}

TEST_CASE("distributed checkpoint: saving and loading use no memory beside the shards") {
  const TemporaryFolder folder;
  const Shape shape{1024, 3000};  // 12 MB
  run_ranks(3, [&](World& world) {
    const int64_t n = shape.numel() / 3, first = n * world.rank();
    const Tensor values = Tensor::empty({n}, f32);
    for (int64_t i = 0; i < n; ++i) values.data<float>()[i] = static_cast<float>(first + i);
    const std::vector<GroupShard> groups{
        {"model", {{"w", shape, flat_range(shape, first, first + n), values}}}};
    MemoryAccount& account = *current_account();
    account.reset_peaks();
    const int64_t before = account.total().current;
    save_checkpoint(world.communicator(), folder.path(), state_at(1), groups);
    values.zero();
    load_checkpoint(world.communicator(), *open_checkpoint(world.communicator(), folder.path()), groups);
    CHECK(values.data<float>()[n - 1] == static_cast<float>(first + n - 1));
    CHECK(account.total().peak <= before + 8192);  // texts between ranks
  });
}

TEST_CASE("distributed checkpoint: ranks that would load different checkpoints load none") {
  const TemporaryFolder folder;
  run_ranks(3, [&](World& world) {
    RankState state({3, 1}, world.rank());
    for (const int64_t step : {1, 2})
      save_checkpoint(world.communicator(), folder.path(), state_at(step), state.groups());
    const CheckpointReader reader(folder / step_name(world.rank() == 2 ? 1 : 2));
    state.train(0, 1);
    const std::string message =
        refused([&] { load_checkpoint(world.communicator(), reader, state.groups()); });
    CHECK(message ==
          "rank 2: " + (folder / step_name(1)) + ": is not the checkpoint that rank 0 finds there");
  });
}

TEST_CASE("distributed checkpoint: rank 0 may take long to publish") {
  // Publishing reads the validation loss of the best checkpoint; a lease on that file delays the read.
  const TemporaryFolder folder;
  const auto before = std::signal(SIGIO, SIG_IGN);  // sent to the lease's holder when the file is opened
  for (const bool in_background : {false, true}) {
    const std::string best = folder / text("best-", in_background), meta = best + "/step-00000001/meta.json";
    std::jthread holder;
    bool has_leases = true;
    const auto body = [&](World& world) {
      Communicator& ranks = world.communicator();
      RankState state({2, 1}, world.rank());
      TrainingState first = state_at(1), second = state_at(2);
      first.validation_loss = second.validation_loss = 1.5;
      save_checkpoint(ranks, best, first, state.groups());
      if (world.rank() == 0) {
        const int file = ::open(meta.c_str(), O_RDWR | O_CLOEXEC);
        has_leases = ::fcntl(file, F_SETLEASE, F_WRLCK) == 0;
        holder = std::jthread([file] {
          std::this_thread::sleep_for(std::chrono::milliseconds(2500));
          ::close(file);
        });
      }
      BackgroundSave background(world.shared_communicator());
      const auto begin = std::chrono::steady_clock::now();
      if (in_background) {
        background.start(best, second, state.groups());
        background.wait();
      } else {
        save_checkpoint(ranks, best, second, state.groups());
      }
      if (has_leases) CHECK(std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(1800));
      CHECK(find_checkpoint(best) == best + "/step-00000002");
    };
    launch(body, {.virtual_ranks = 2, .timeout = std::chrono::milliseconds(1800)});
    if (!has_leases) MESSAGE("this file system has no leases: publishing took no time");
  }
  std::signal(SIGIO, before);
}

TEST_CASE("distributed checkpoint: a rank that does not find the folder is named") {
  const TemporaryFolder folder;
  const std::string message = refused([&] { write_files(folder / "elsewhere", 3, 4, {}); });
  CHECK(contains(message, "elsewhere: rank 0 created this folder, rank 3 does not find it"));
}

TEST_CASE("rank agreement: all ranks call the collective until the slowest has finished") {
  run_ranks(3, [](World& world) {
    Communicator& ranks = world.communicator();
    const int64_t before = ranks.ledger().total(Traffic::state).calls;
    int calls = 0;
    wait_for_all(ranks, [&](std::chrono::milliseconds) { return ++calls > 4 * world.rank(); });
    CHECK(calls == 4 * world.rank() + 1);
    CHECK(ranks.ledger().total(Traffic::state).calls - before ==
          9);  // the number of calls on the slowest rank
  });
}

TEST_CASE("rank agreement: texts of any length, in rank order; the lowest rank's error on all") {
  run_ranks(4, [](World& world) {
    Communicator& ranks = world.communicator();
    const std::string own_text(static_cast<size_t>(1000 * world.rank()),
                               static_cast<char>('a' + world.rank()));
    const std::vector<std::string> texts = gather_texts(ranks, own_text);
    CHECK(texts.size() == (world.rank() == 0 ? 4 : 0));
    for (size_t rank = 0; rank < texts.size(); ++rank)
      CHECK(texts[rank] == std::string(1000 * rank, static_cast<char>('a' + rank)));
    CHECK(broadcast_text(ranks, own_text, 2) == std::string(2000, 'c'));
    CHECK(broadcast_text(ranks, own_text) == "");
    for (const auto run : {&run_on_all, &run_long_together}) {
      CHECK(refused([&] {
              run(ranks, [&] {
                if (world.rank() % 2 == 1) throw ValueError(text("rank ", world.rank(), " is odd"));
              });
            }) == "rank 1: rank 1 is odd");
      run(ranks, [] {});
    }
  });
}
