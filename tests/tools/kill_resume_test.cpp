#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/checkpoint_reader.h"
#include "tensor/io/file.h"
#include "tests/tools/child_process.h"
#include "tests/tools/gptlite_program.h"

namespace {

namespace fs = std::filesystem;

constexpr int kills = 20;
constexpr int64_t steps = 220;

std::vector<std::string> training(const std::string& out, const std::string& metrics) {
  return tiny_training(out, {"--steps", std::to_string(steps), "--dropout", "0.1", "--checkpoint-interval",
                             "2", "--metrics", metrics});
}

/// Whether a checkpoint is being written.
bool is_saving(const std::string& out) {
  std::error_code gone;
  for (fs::directory_iterator entry(out, gone), end; !gone && entry != end; entry.increment(gone))
    if (contains(entry->path().filename().string(), tessera::io::temporary_mark)) return true;
  return false;
}

int64_t lines_of(const std::string& path) {
  const std::string bytes = file_bytes(path);
  return std::count(bytes.begin(), bytes.end(), '\n');
}

/// Starts or resumes the run, and kills it some steps later: anywhere, or inside a save. Returns whether it
/// was inside a save.
bool run_and_kill(const std::string& out, const std::string& metrics, bool inside_save,
                  std::mt19937& random) {
  std::vector<std::string> arguments = training(out, metrics);
  if (tessera::dist::newest_checkpoint(out)) arguments.insert(arguments.end(), {"--resume", "latest"});
  const int64_t enough = lines_of(metrics) + 2 + static_cast<int64_t>(random() % 6);
  ChildProcess child("gptlite", arguments, {.output = out + ".log"});
  while (child.is_running() && lines_of(metrics) < enough) std::this_thread::yield();
  while (inside_save && child.is_running() && !is_saving(out)) {
  }
  std::this_thread::sleep_for(std::chrono::microseconds(random() % (inside_save ? 500 : 5000)));
  child.send(SIGKILL);
  REQUIRE_MESSAGE(child.wait() == 128 + SIGKILL, file_bytes(out + ".log"));
  return is_saving(out);
}

std::string tensors(const std::string& out, const std::string& file) {
  return file_bytes(tessera::dist::find_checkpoint(out) + "/" + file);
}

}  // namespace

TEST_CASE("gptlite train: killed at random moments, it resumes with the bits of an uninterrupted run") {
  const TemporaryFolder folder;
  const std::string whole = folder / "whole", killed = folder / "killed";
  REQUIRE(gptlite(training(whole, folder / "whole.jsonl")).status == 0);
  const auto expected = losses_of(folder / "whole.jsonl");
  REQUIRE(expected.size() == steps);

  std::mt19937 random(1);
  int inside_saves = 0;
  for (int i = 0; i < kills; ++i)
    inside_saves += run_and_kill(killed, folder / "killed.jsonl", i % 2 == 1, random);
  CHECK(inside_saves >= 1);  // at least one kill left an incomplete checkpoint

  std::vector<std::string> last = training(killed, folder / "killed.jsonl");
  last.insert(last.end(), {"--resume", "latest"});
  const Outcome outcome = gptlite(last);
  REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
  std::set<int64_t> seen;
  for (const auto& [step, loss] : losses_of(folder / "killed.jsonl")) {
    seen.insert(step);
    CHECK(loss == expected[static_cast<size_t>(step - 1)].second);  // also of steps that were taken twice
  }
  CHECK(seen.size() == steps);
  CHECK(tensors(killed, "model.safetensors") == tensors(whole, "model.safetensors"));
  CHECK(tensors(killed, "optimizer.safetensors") == tensors(whole, "optimizer.safetensors"));
}

TEST_CASE("gptlite train: two runs with one seed have the same bits, with another seed they do not") {
  const TemporaryFolder folder;
  const auto losses = [&](const std::string& name, const std::string& seed) {
    REQUIRE(gptlite(tiny_training(folder / name, {"--steps", "12", "--dropout", "0.1", "--seed", seed,
                                                  "--metrics", folder / (name + ".jsonl")}))
                .status == 0);
    return losses_of(folder / (name + ".jsonl"));
  };
  const auto first = losses("first", "3");
  CHECK(first.size() == 12);
  CHECK(first == losses("second", "3"));
  CHECK(first != losses("third", "4"));
  CHECK(tensors(folder / "first", "model.safetensors") == tensors(folder / "second", "model.safetensors"));
}
