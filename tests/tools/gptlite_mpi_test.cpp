#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <thread>

#include "dist/checkpoint/checkpoint_reader.h"
#include "tests/tools/gptlite_program.h"
#include "tests/tools/mpi_program.h"

// gptlite as processes that mpirun starts.

namespace {

using Flags = std::vector<std::string>;

Flags training(const TemporaryFolder& folder, const std::string& name, Flags more) {
  const Flags defaults = {"--n-layer", "2",   "--batch-size", "12",
                          "--dropout", "0.1", "--metrics",    folder / (name + ".jsonl")};
  more.insert(more.end(), defaults.begin(), defaults.end());
  return tiny_training(folder / name, more);
}

/// Runs gptlite on ranks and waits for its exit status.
int run(const TemporaryFolder& folder, const std::string& name, int ranks, const Flags& flags) {
  ChildProcess child(mpirun_or_message(), on_ranks(ranks, flags), {.output = folder / (name + ".log")});
  return child.wait();
}

}  // namespace

TEST_CASE("gptlite under mpirun: every strategy has the losses of one process with the same batch") {
  if (mpirun_or_message().empty()) return;
  const TemporaryFolder folder;
  REQUIRE(gptlite(training(folder, "single", {"--steps", "20"})).status == 0);
  const auto expected = losses_of(folder / "single.jsonl");
  const std::vector<std::pair<int, Flags>> cases = {
      {2, {"--strategy", "no_shard"}},
      {2, {"--strategy", "shard_optim"}},
      {2, {"--strategy", "shard_grad_op"}},
      {2, {"--strategy", "full_shard"}},
      {4, {"--strategy", "full_shard"}},
      {4, {"--strategy", "hybrid_shard", "--shard-group-size", "2"}},
      {4, {"--strategy", "hybrid_shard_zero2", "--shard-group-size", "2"}}};
  for (const auto& [ranks, flags] : cases) {
    const std::string name = flags[1] + std::to_string(ranks);
    Flags all = flags;
    all.insert(all.end(), {"--steps", "20"});
    REQUIRE_MESSAGE(run(folder, name, ranks, training(folder, name, all)) == 0,
                    file_bytes(folder / (name + ".log")));
    const auto losses = losses_of(folder / (name + ".jsonl"));
    REQUIRE(losses.size() == expected.size());
    for (size_t i = 0; i < losses.size(); ++i) CHECK(std::abs(losses[i].second - expected[i].second) < 1e-3);
  }
}

TEST_CASE("gptlite under mpirun: SIGUSR1 saves and stops all ranks at one step") {
  if (mpirun_or_message().empty()) return;
  const TemporaryFolder folder;
  const std::string metrics = folder / "run.jsonl";
  ChildProcess child(mpirun_or_message(), on_ranks(2, training(folder, "run", {"--steps", "1000000"})),
                     {.output = folder / "run.log"});
  while (child.is_running() && losses_of(metrics).size() < 3)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  send_to_ranks(child, SIGUSR1);
  CHECK_MESSAGE(child.wait() == 0, file_bytes(folder / "run.log"));
  const auto losses = losses_of(metrics);
  REQUIRE(!losses.empty());
  CHECK(tessera::dist::CheckpointReader(tessera::dist::find_checkpoint(folder / "run")).state().step ==
        losses.back().first);
  CHECK(losses_of(folder / "run.rank1.jsonl") == losses);
}

TEST_CASE("gptlite under mpirun: bad arguments end with 2 and one message") {
  if (mpirun_or_message().empty()) return;
  const TemporaryFolder folder;
  CHECK(run(folder, "odd", 5, training(folder, "odd", {})) == 2);
  const std::string message = "--batch-size 12: expected a multiple of the number of ranks, 5";
  const std::string log = file_bytes(folder / "odd.log");
  REQUIRE_MESSAGE(contains(log, message), log);
  CHECK(log.find(message) == log.rfind(message));
  CHECK(run(folder, "both", 2, training(folder, "both", {"--virtual-ranks", "2"})) == 2);
  CHECK_MESSAGE(contains(file_bytes(folder / "both.log"), "--virtual-ranks 2 under mpirun"),
                file_bytes(folder / "both.log"));
  CHECK(run(folder, "flag", 2, training(folder, "flag", {"--bathc-size", "3"})) == 2);
  const std::string flag = file_bytes(folder / "flag.log");
  CHECK_MESSAGE(flag.find("gptlite: ") == flag.rfind("gptlite: "), flag);
  CHECK(run(folder, "text", 2, training(folder, "text", {"--dataset", "text", "--data", "/no/such"})) == 3);
  CHECK(!std::filesystem::exists(folder / "odd"));
}

TEST_CASE("gptlite under mpirun: ranks whose calls differ end with 5 and one message") {
  if (mpirun_or_message().empty()) return;
  const TemporaryFolder folder;
  const auto with_layers = [&](const char* layers) {
    return on_ranks(1, tiny_training(folder / "run", {"--strategy", "full_shard", "--n-layer", layers}));
  };
  Flags both = with_layers("1");
  const Flags second = with_layers("2");
  both.push_back(":");  // the following arguments are the second rank's
  both.insert(both.end(), std::find(second.begin(), second.end(), "-n"), second.end());
  ChildProcess child(mpirun_or_message(), both, {.output = folder / "log"});
  CHECK(child.wait() == 5);
  const std::string log = file_bytes(folder / "log");
  REQUIRE_MESSAGE(contains(log, "gptlite: "), log);
  CHECK_MESSAGE(log.find("gptlite: ") == log.rfind("gptlite: "), log);
}

TEST_CASE("gptlite: ranks of an unknown launcher end with 2, naming the variables that it set") {
  const TemporaryFolder folder;
  Flags arguments = {"PMI_RANK=1", "PMI_SIZE=2"};
  const Flags program = on_ranks(1, training(folder, "run", {"--steps", "2"}));
  arguments.insert(arguments.end(), std::find(program.begin(), program.end(), "-n") + 2, program.end());
  ChildProcess child("/usr/bin/env", arguments, {.output = folder / "log"});
  CHECK(child.wait() == 2);
  const std::string log = file_bytes(folder / "log");
  CHECK_MESSAGE(contains(log, "PMI_RANK=1, PMI_SIZE=2"), log);
  CHECK_MESSAGE(contains(log, "`mpirun -n RANKS"), log);
  CHECK(!std::filesystem::exists(folder / "run"));
}

TEST_CASE("gptlite under mpirun: an error on one rank, or on all, gives one message and its exit status") {
  if (mpirun_or_message().empty()) return;
  const TemporaryFolder folder;
  const auto lines = [&](const std::string& name) {
    const std::string log = file_bytes(folder / (name + ".log"));
    size_t count = 0;
    for (size_t at = log.find("gptlite: "); at != std::string::npos; at = log.find("gptlite: ", at + 1))
      ++count;
    return count;
  };
  std::filesystem::create_directory(folder / "one.rank2.jsonl");  // which rank 2 cannot write to
  CHECK(run(folder, "one", 3, training(folder, "one", {})) == 2);
  CHECK_MESSAGE(lines("one") == 1, file_bytes(folder / "one.log"));
  CHECK(contains(file_bytes(folder / "one.log"), "one.rank2.jsonl"));
  CHECK(run(folder, "all", 3, training(folder, "all", {"--lr", "1e38"})) == 4);
  CHECK_MESSAGE(lines("all") == 1, file_bytes(folder / "all.log"));
}

TEST_CASE("gptlite under mpirun: a rank that is killed or stopped ends all, and it is named") {
  if (mpirun_or_message().empty()) return;
  // Of two ranks that are stopped at once, the second would report the loss of the first.
  const std::vector<std::pair<int, std::vector<size_t>>> faults = {
      {SIGKILL, {1}}, {SIGSTOP, {1}}, {SIGSTOP, {0, 1}}};
  for (const auto& [signal, victims] : faults) {
    const TemporaryFolder folder;
    const std::string metrics = folder / "run.jsonl", log = folder / "run.log";
    ChildProcess child(mpirun_or_message(),
                       on_ranks(3, training(folder, "run", {"--steps", "1000000", "--timeout", "3"})),
                       {.output = log});
    while (child.is_running() && losses_of(metrics).size() < 3)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::vector<pid_t> ranks = children_of(child.pid());
    REQUIRE(ranks.size() == 3);
    for (const size_t victim : victims) kill(ranks[victim], signal);
    const int status = child.wait();
    if (signal == SIGSTOP) CHECK(status == 5);
    CHECK_MESSAGE(status != 0, file_bytes(log));
    const bool is_named = std::any_of(victims.begin(), victims.end(), [&](size_t victim) {
      return contains(file_bytes(log), tessera::text("rank ", victim, " "));
    });
    CHECK_MESSAGE(is_named, file_bytes(log));  // mpirun names a killed one, too
  }
}
