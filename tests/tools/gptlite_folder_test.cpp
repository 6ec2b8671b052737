#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/run_lock.h"
#include "tests/tools/child_process.h"
#include "tests/tools/gptlite_program.h"
#include "tests/tools/mpi_program.h"

// The folder of gptlite's checkpoints: its lock, its pointer `latest`, and what a finished run prints.

namespace {

namespace fs = std::filesystem;
using namespace tessera;

using Flags = std::vector<std::string>;

/// Waits for the first steps of a run.
void wait_for_steps(ChildProcess& child, const std::string& metrics) {
  while (child.is_running() && losses_of(metrics).size() < 2)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

/// A run that only a signal ends. It saves nothing before: a second run must be refused because the first one
/// runs, not because of its checkpoints.
Flags endless(const std::string& out, const std::string& metrics, Flags more = {}) {
  more.insert(more.end(), {"--steps", "1000000", "--checkpoint-interval", "0", "--metrics", metrics});
  return tiny_training(out, more);
}

}  // namespace

TEST_CASE("gptlite train: a second run in the same --out ends with 2 and names the first") {
  const TemporaryFolder folder;
  const std::string out = folder / "out", metrics = folder / "first.jsonl";
  for (const Flags& more : {Flags{}, Flags{"--virtual-ranks", "2"}}) {
    ChildProcess first("gptlite", endless(out, metrics, more), {});
    wait_for_steps(first, metrics);
    REQUIRE(first.is_running());
    for (const Flags& others : {Flags{}, Flags{"--virtual-ranks", "2"}}) {
      Flags flags{"--steps", "3", "--metrics", folder / "second.jsonl"};
      flags.insert(flags.end(), others.begin(), others.end());
      const Outcome second = gptlite(tiny_training(out, flags));
      CHECK(second.status == 2);
      CHECK_MESSAGE(is_one_error_line(second.err), second.err);
      CHECK(contains(second.err, out + ": another run saves into this folder"));
      CHECK(contains(second.err, "process " + std::to_string(first.pid()) + " on host "));
    }
    CHECK(!fs::exists(folder / "second.jsonl"));  // it did not begin
    first.send(SIGUSR1);
    CHECK(first.wait() == 0);
    CHECK(!fs::exists(out + "/" + dist::run_lock_name));
    fs::remove_all(out);
    fs::remove(metrics);
  }
}

TEST_CASE("gptlite train: of two runs started together in one --out one ends with 0, the other with 2") {
  const TemporaryFolder folder;
  const Flags flags = tiny_training(folder / "out", {"--steps", "30", "--quiet"});
  for (int round = 0; round < 3; ++round) {
    ChildProcess a("gptlite", flags, {.output = folder / "a"}), b("gptlite", flags, {.output = folder / "b"});
    std::vector<int> statuses{a.wait(), b.wait()};
    std::sort(statuses.begin(), statuses.end());
    const std::string logs = file_bytes(folder / "a") + file_bytes(folder / "b");
    CHECK_MESSAGE((statuses == std::vector<int>{0, 2}), logs);
    fs::remove_all(folder / "out");
  }
}

TEST_CASE("gptlite train: under mpirun rank 0 locks --out, and a second run ends with 2") {
  if (mpirun_or_message().empty()) return;
  const TemporaryFolder folder;
  const std::string out = folder / "out", metrics = folder / "first.jsonl", log = folder / "second.log";
  ChildProcess first(mpirun_or_message(), on_ranks(2, endless(out, metrics)), {});
  wait_for_steps(first, metrics);
  REQUIRE(first.is_running());
  ChildProcess second(mpirun_or_message(), on_ranks(2, tiny_training(out, {"--steps", "3"})),
                      {.output = log});
  CHECK(second.wait() == 2);
  CHECK_MESSAGE(contains(file_bytes(log), out + ": another run saves into this folder"), file_bytes(log));
  CHECK(gptlite(tiny_training(out, {"--steps", "3"})).status == 2);
  send_to_ranks(first, SIGUSR1);
  CHECK(first.wait() == 0);
}

TEST_CASE("gptlite: `latest` names a deleted checkpoint: the newest one is taken, and that is printed") {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  const Flags flags = tiny_training(out, {"--steps", "6", "--checkpoint-interval", "2"});
  REQUIRE(gptlite(flags).status == 0);
  fs::remove_all(out + "/step-00000006");
  const std::string note =
      out + "/latest names step-00000006, where no complete checkpoint is: step-00000004";
  const Outcome sampled = gptlite({"sample", "--checkpoint", out, "--length", "3"});
  CHECK(sampled.status == 0);
  CHECK_MESSAGE(contains(sampled.out, note), sampled.out);
  Flags resumed = flags;
  resumed.insert(resumed.end(), {"--resume", "latest"});
  const Outcome outcome = gptlite(resumed);
  CHECK_MESSAGE(outcome.status == 0, outcome.err);
  CHECK_MESSAGE(contains(outcome.out, note), outcome.out);
  CHECK(contains(outcome.out, "resuming from " + out + "/step-00000004"));
  CHECK(dist::find_checkpoint(out) == out + "/step-00000006");
}

TEST_CASE("gptlite train: a finished run that is resumed does not print that it saved") {
  const TemporaryFolder folder;
  const std::string out = folder / "out", other = folder / "other";
  const Outcome first = gptlite(tiny_training(out, {"--steps", "4"}));
  CHECK(contains(first.out, "saved " + out + "/step-00000004"));
  for (const std::string& to : {out, other}) {
    const Outcome again = gptlite(tiny_training(to, {"--steps", "4", "--resume", out}));
    CHECK_MESSAGE(again.status == 0, again.err);
    CHECK_MESSAGE(!contains(again.out, "saved " + to), again.out);
    CHECK_MESSAGE(contains(again.out, "nothing was saved: " + out + "/step-00000004 is the run's end"),
                  again.out);
  }
  CHECK(dist::list_checkpoints(other).empty());
}
