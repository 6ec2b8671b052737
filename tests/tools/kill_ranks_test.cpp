#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <set>
#include <thread>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/checkpoint_reader.h"
#include "tests/tools/gptlite_program.h"
#include "tests/tools/mpi_program.h"

// Ranks killed at random moments: no complete checkpoint is lost, and another number of ranks resumes the
// run.

namespace {

using namespace tessera;
using Flags = std::vector<std::string>;

constexpr int64_t steps = 160;

Flags training(const std::string& out, const std::string& metrics, const Flags& more = {}) {
  Flags flags = {"--steps",
                 std::to_string(steps),
                 "--batch-size",
                 "12",
                 "--dropout",
                 "0.1",
                 "--metrics",
                 metrics,
                 "--checkpoint-interval",
                 "2",
                 "--quiet"};
  flags.insert(flags.end(), more.begin(), more.end());
  return tiny_training(out, flags);
}

/// Worlds and strategies in turn, so that each resumes from another's checkpoint.
struct World {
  int ranks;
  Flags flags;
};
World world(int turn) {
  const World worlds[] = {{2, {"--strategy", "full_shard"}},
                          {4, {"--strategy", "hybrid_shard", "--shard-group-size", "2"}},
                          {1, {"--strategy", "full_shard"}},
                          {3, {"--strategy", "shard_optim", "--async-save"}},
                          {2, {"--strategy", "no_shard"}},
                          {4, {"--strategy", "shard_grad_op"}},
                          {3, {"--strategy", "full_shard", "--async-save"}}};
  return worlds[turn % 7];
}

/// The newest checkpoint's step, 0 for none. Throws where it is not complete.
int64_t verified_checkpoint(const std::string& out) {
  if (!dist::newest_checkpoint(out)) return 0;
  const dist::CheckpointReader reader(dist::find_checkpoint(out));
  reader.verify();
  return reader.state().step;
}

/// Waits for some more steps of the run, and some microseconds: a random moment of a step or a save.
void wait_for_random_moment(ChildProcess& child, const std::string& metrics, std::mt19937& random) {
  const size_t enough = losses_of(metrics).size() + 2 + random() % 6;
  while (child.is_running() && losses_of(metrics).size() < enough)
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
}

/// Checks that every recorded loss, also of steps that were taken twice, is that of the uninterrupted run.
void check_losses(const std::string& metrics, const std::vector<std::pair<int64_t, double>>& expected) {
  std::set<int64_t> seen;
  for (const auto& [step, loss] : losses_of(metrics)) {
    seen.insert(step);
    CHECK(std::abs(loss - expected[static_cast<size_t>(step - 1)].second) < 1e-3);
  }
  CHECK(seen.size() == steps);
}

/// Starts `kills` runs by `start(ranks, flags, log)`, each of which resumes the one before, kills them by
/// `kill(child, random)`, and lets a last one end.
template <class Start, class Kill>
void kill_and_resume(int kills, Start start, Kill kill) {
  const TemporaryFolder folder;
  REQUIRE(gptlite(training(folder / "whole", folder / "whole.jsonl")).status == 0);
  const std::string out = folder / "killed", metrics = folder / "killed.jsonl", log = folder / "killed.log";
  std::mt19937 random(1);
  int64_t newest = 0;
  for (int turn = 0; turn <= kills; ++turn) {
    Flags flags = training(out, metrics, world(turn).flags);
    if (newest > 0) flags.insert(flags.end(), {"--resume", "latest"});
    const std::unique_ptr<ChildProcess> child = start(world(turn).ranks, flags, log);
    if (turn == kills) {
      REQUIRE_MESSAGE(child->wait() == 0, file_bytes(log));
      break;
    }
    wait_for_random_moment(*child, metrics, random);
    kill(*child, random);
    REQUIRE_MESSAGE(child->wait() != 0, file_bytes(log));
    const int64_t found = verified_checkpoint(out);
    CHECK(found >= newest);
    newest = found;
  }
  CHECK(newest > kills);  // each turn saved something
  CHECK(verified_checkpoint(out) == steps);
  check_losses(metrics, losses_of(folder / "whole.jsonl"));
}

}  // namespace

TEST_CASE("gptlite on ranks as threads: killed at random moments, another number of ranks resumes") {
  kill_and_resume(
      7,
      [](int ranks, Flags flags, const std::string& log) {
        flags.insert(flags.end(), {"--virtual-ranks", std::to_string(ranks)});
        return std::make_unique<ChildProcess>("gptlite", flags, ChildProcess::Options{.output = log});
      },
      [](ChildProcess& child, std::mt19937&) { child.send(SIGKILL); });
}

TEST_CASE("gptlite under mpirun: a rank killed at 20 random moments, another number of ranks resumes") {
  const std::string mpirun = mpirun_or_message();
  if (mpirun.empty()) return;
  kill_and_resume(
      20,
      [&](int ranks, const Flags& flags, const std::string& log) {
        return std::make_unique<ChildProcess>(mpirun, on_ranks(ranks, flags),
                                              ChildProcess::Options{.output = log});
      },
      [](ChildProcess& child, std::mt19937& random) {
        const std::vector<pid_t> ranks = children_of(child.pid());
        REQUIRE(!ranks.empty());
        ::kill(ranks[random() % ranks.size()], SIGKILL);
      });
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
    CHECK_MESSAGE(!file.path().filename().string().starts_with("tessera"), file.path());
}
