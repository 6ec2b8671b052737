// gptlite in stages, killed at random moments and resumed on another mesh each time.

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <thread>

#include "dist/checkpoint/checkpoint_folder.h"
#include "tests/tools/child_process.h"
#include "tests/tools/gptlite_program.h"

namespace {

using Flags = std::vector<std::string>;

constexpr int kills = 10;
constexpr int64_t steps = 120;

const std::vector<Flags> meshes = {
    {"--virtual-ranks", "2", "--pipeline-stages", "2"},
    {"--virtual-ranks", "4", "--pipeline-stages", "2", "--strategy", "full_shard"},
    {"--virtual-ranks", "4", "--pipeline-stages", "4", "--pipeline-schedule", "zb-h1"},
    {},
    {"--virtual-ranks", "2", "--pipeline-stages", "2", "--pipeline-schedule", "zb-v"},
    {"--virtual-ranks", "4", "--pipeline-stages", "2", "--strategy", "shard_optim"},
    {"--virtual-ranks", "2", "--strategy", "shard_grad_op"}};

Flags training(const std::string& out, const std::string& metrics, const Flags& mesh) {
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
  flags.insert(flags.end(), mesh.begin(), mesh.end());
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
  REQUIRE(gptlite(training(folder / "whole", folder / "whole.jsonl", {})).status == 0);
  std::map<int64_t, double> found;
  std::mt19937 random(1);
  const std::string out = folder / "killed";
  for (int run = 0; run <= kills; ++run) {
    const std::string metrics = folder / ("killed" + std::to_string(run) + ".jsonl");
    Flags flags = training(out, metrics, meshes[static_cast<size_t>(run) % meshes.size()]);
    if (tessera::dist::newest_checkpoint(out)) flags.insert(flags.end(), {"--resume", "latest"});
    const int64_t enough = 2 + static_cast<int64_t>(random() % 8);
    ChildProcess child("gptlite", flags, {.output = out + ".log"});
    if (run < kills) {
      while (child.is_running() && lines_of(metrics) < enough) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
      child.send(SIGKILL);
      REQUIRE_MESSAGE(child.wait() == 128 + SIGKILL, file_bytes(out + ".log"));
    } else {
      REQUIRE_MESSAGE(child.wait() == 0, file_bytes(out + ".log"));
    }
    for (const auto& [step, loss] : losses_of(metrics)) found[step] = loss;
  }
  const auto expected = losses_of(folder / "whole.jsonl");
  REQUIRE(expected.size() == steps);
  REQUIRE(found.size() == steps);
  for (const auto& [step, loss] : expected) CHECK(std::abs(found.at(step) - loss) < 1e-4);
}
