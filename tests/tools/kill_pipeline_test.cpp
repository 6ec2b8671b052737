// gptlite in stages, killed at random moments and resumed on another mesh each time: of ranks that are
// threads of a process, and of processes under mpirun, of which one is killed.

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "dist/checkpoint/checkpoint_folder.h"
#include "tests/tools/child_process.h"
#include "tests/tools/gptlite_program.h"
#include "tests/tools/mpi_program.h"

namespace {

using Flags = std::vector<std::string>;

constexpr int kills = 10;
constexpr int64_t steps = 120;

struct Mesh {
  int ranks;
  Flags flags;
};
const std::vector<Mesh> meshes = {{2, {"--pipeline-stages", "2"}},
                                  {4, {"--pipeline-stages", "2", "--strategy", "full_shard"}},
                                  {4, {"--pipeline-stages", "4", "--pipeline-schedule", "zb-h1"}},
                                  {1, {}},
                                  {2, {"--pipeline-stages", "2", "--pipeline-schedule", "zb-v"}},
                                  {4, {"--pipeline-stages", "2", "--strategy", "shard_optim"}},
                                  {2, {"--strategy", "shard_grad_op"}}};

/// A run, and how it is killed.
class Run {
 public:
  /// Under `mpirun`, if any, where there are several ranks.
  Run(const std::string& mpirun, const Mesh& mesh, Flags flags, const std::string& log)
      : is_job_(!mpirun.empty() && mesh.ranks > 1) {
    flags.insert(flags.end(), mesh.flags.begin(), mesh.flags.end());
    if (!is_job_ && mesh.ranks > 1)
      flags.insert(flags.end(), {"--virtual-ranks", std::to_string(mesh.ranks)});
    child_.emplace(is_job_ ? mpirun : "gptlite", is_job_ ? on_ranks(mesh.ranks, flags) : flags,
                   ChildProcess::Options{.output = log});
  }
  ChildProcess& child() { return *child_; }
  /// Kills a random rank, or the process of all.
  void kill(std::mt19937& random) {
    if (!is_job_) return child_->send(SIGKILL);
    const std::vector<pid_t> ranks = children_of(child_->pid());
    if (!ranks.empty()) ::kill(ranks[random() % ranks.size()], SIGKILL);
  }

 private:
  bool is_job_;
  std::optional<ChildProcess> child_;
};

Flags training(const std::string& out, const std::string& metrics) {
  Flags flags = {"--steps",
                 std::to_string(steps),
                 "--n-layer",
                 "4",
                 "--dropout",
                 "0.1",
                 "--batch-size",
                 "16",
                 "--metrics",
                 metrics,
                 "--micro-batch-size",
                 "2",
                 "--lr",
                 "0.003",
                 "--checkpoint-interval",
                 "2"};
  return tiny_training(out, flags);
}

int64_t lines_of(const std::string& path) {
  const std::string bytes = file_bytes(path);
  return std::count(bytes.begin(), bytes.end(), '\n');
}

}  // namespace

TEST_CASE(
    "gptlite in stages: killed ten times and resumed on other meshes, it has the losses of one process") {
  const TemporaryFolder folder;
  REQUIRE(gptlite(training(folder / "whole", folder / "whole.jsonl")).status == 0);
  const auto expected = losses_of(folder / "whole.jsonl");
  REQUIRE(expected.size() == steps);
  std::mt19937 random(1);
  // Threads first, which every machine has.
  for (const std::string& mpirun : {std::string(), mpirun_or_message()}) {
    const std::string out = folder / (mpirun.empty() ? "threads" : "processes");
    if (std::filesystem::exists(out)) break;
    std::map<int64_t, double> found;
    for (int run = 0; run <= kills; ++run) {
      const std::string metrics = out + std::to_string(run) + ".jsonl", log = out + ".log";
      Flags flags = training(out, metrics);
      if (tessera::dist::newest_checkpoint(out)) flags.insert(flags.end(), {"--resume", "latest"});
      const int64_t enough = 2 + static_cast<int64_t>(random() % 8);
      Run job(mpirun, meshes[static_cast<size_t>(run) % meshes.size()], flags, log);
      ChildProcess& child = job.child();
      if (run < kills) {
        while (child.is_running() && lines_of(metrics) < enough)
          std::this_thread::sleep_for(std::chrono::microseconds(500));
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
        job.kill(random);
        REQUIRE_MESSAGE(child.wait() == 128 + SIGKILL, file_bytes(log));
      } else {
        REQUIRE_MESSAGE(child.wait() == 0, file_bytes(log));
      }
      for (const auto& [step, loss] : losses_of(metrics)) found[step] = loss;
    }
    REQUIRE(found.size() == steps);
    for (const auto& [step, loss] : expected) CHECK(std::abs(found.at(step) - loss) < 1e-4);
  }
}
