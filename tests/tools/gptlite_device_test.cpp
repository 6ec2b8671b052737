// gptlite on a CUDA device: the simulated card, which needs none, and what is refused. Runs are processes of
// their own, since a process has one kind of device, and the card's checks speak at its end.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tensor/device.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/child_process.h"
#include "tests/tools/gptlite_program.h"

using namespace tessera;

namespace {

const std::string simulator = TESSERA_PROGRAM_DIR "/../cuda_sim";

/// gptlite as a process: its exit status, 99 where the simulated card had findings, and all that it printed.
Outcome run_process(const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  const Environment exit_code("TESSERA_CUDA_SIM_EXIT_CODE", "99");
  ChildProcess process("gptlite", arguments, {.output = folder / "output"});
  Outcome outcome;
  outcome.status = process.wait();
  outcome.out = outcome.err = file_bytes(folder / "output");
  return outcome;
}

/// "train" of the preset tiny on the builtin play, and `more`.
std::vector<std::string> training(const std::string& out, const std::vector<std::string>& more) {
  std::vector<std::string> all{"train",     "--preset", "tiny",  "--dataset", "builtin",   "--steps",     "5",
                               "--threads", "1",        "--out", out,         "--metrics", out + ".jsonl"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void check_losses(const std::string& there, const std::string& here, double tolerance) {
  const auto expected = losses_of(here + ".jsonl"), got = losses_of(there + ".jsonl");
  REQUIRE(expected.size() == 5);
  REQUIRE(got.size() == 5);
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got[i].second - expected[i].second) <= tolerance * expected[i].second);
  }
}

/// The line that refuses `arguments`.
std::string refused(const std::vector<std::string>& arguments, int status = 2) {
  const Outcome outcome = run_process(arguments);
  CHECK(outcome.status == status);
  CHECK_MESSAGE(is_one_error_line(outcome.err), outcome.err);
  return outcome.err;
}

}  // namespace

TEST_CASE("gptlite on the simulated card: the CPU's losses in every order of the card, and no findings") {
  if (!cuda_is_built()) return;
  const TemporaryFolder folder;
  const std::string here = folder / "cpu";
  REQUIRE(::gptlite(training(here, {"--quiet"})).status == 0);
  for (const char* order : {"eager", "lazy", "random"}) {
    CAPTURE(std::string(order));
    const Environment setting("TESSERA_CUDA_SIM_ORDER", order);
    const std::string there = folder / order;
    const Outcome outcome = run_process(training(there, {"--device", "cuda:sim"}));
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
    check_losses(there, here, 1e-5);
    CHECK(contains(outcome.out, "cuda:0, simulated"));
    CHECK(contains(outcome.out, "a simulated card: no time is claimed"));
    CHECK(!contains(outcome.out, "tokens a second"));
    CHECK(!contains(outcome.out, "tokens/s"));
    CHECK(contains(outcome.out, "optimizer state"));  // memory at its peak, by category
    const std::string metrics = file_bytes(there + ".jsonl");
    CHECK(contains(metrics, "\"tokens_per_second\":null"));
    CHECK(contains(metrics, "\"step_ms\":null"));
    CHECK(contains(metrics, "\"mfu\":null"));
  }
}

TEST_CASE("gptlite on the simulated card: bf16, fp16, checkpointed activations, a resumed run") {
  if (!cuda_is_built()) return;
  const TemporaryFolder folder;
  const std::vector<std::string> on_card{"--device", "cuda:sim"};
  struct Case {
    const char* name;
    std::vector<std::string> flags;
    double tolerance;
  };
  // Half types: a rounding step of a value of the loss's size, of 2^-8 and 2^-11.
  const Case cases[] = {{"bf16", {"--dtype", "bf16"}, 0x1p-8},
                        {"fp16", {"--dtype", "fp16", "--initial-scale-power", "8"}, 0x1p-9},
                        {"recomputed", {"--activation-checkpoint-interval", "1"}, 1e-5}};
  for (const Case& c : cases) {
    CAPTURE(std::string(c.name));
    const std::string here = folder / (std::string("cpu-") + c.name), there = folder / c.name;
    REQUIRE(::gptlite(training(here, joined(c.flags, {"--quiet"}))).status == 0);
    const Outcome outcome = run_process(training(there, joined(c.flags, on_card)));
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
    check_losses(there, here, c.tolerance);
  }
  // Recomputation draws the same dropout and runs the same kernels.
  const std::string whole = folder / "whole", rest = folder / "rest";
  REQUIRE(run_process(training(whole, joined({"--checkpoint-interval", "3"}, on_card))).status == 0);
  CHECK(losses_of(whole + ".jsonl") == losses_of((folder / "recomputed") + ".jsonl"));
  const Outcome resumed = run_process(joined({"train", "--resume", whole + "/step-00000003", "--out", rest,
                                              "--metrics", rest + ".jsonl", "--threads", "1"},
                                             on_card));
  REQUIRE_MESSAGE(resumed.status == 0, resumed.err);
  const auto all = losses_of(whole + ".jsonl");
  CHECK(losses_of(rest + ".jsonl") == decltype(all)(all.begin() + 3, all.end()));
}

TEST_CASE("gptlite sample and eval: a device gives the CPU's text and loss from either's checkpoint") {
  if (!cuda_is_built()) return;
  const TemporaryFolder folder;
  const std::string here = folder / "cpu", there = folder / "card";
  REQUIRE(::gptlite(training(here, {"--quiet"})).status == 0);
  REQUIRE(run_process(training(there, {"--device", "cuda:sim"})).status == 0);
  for (const std::string& checkpoint : {here, there}) {
    const std::vector<std::string> sample{"sample", "--checkpoint",  checkpoint, "--length",
                                          "8",      "--prompt",      "the",      "--threads",
                                          "1",      "--temperature", "0"};
    const Outcome text = run_process(joined(sample, {"--device", "cuda:sim"}));
    REQUIRE_MESSAGE(text.status == 0, text.err);
    CHECK(text.out == ::gptlite(sample).out);
    const std::vector<std::string> eval{"eval", "--checkpoint", checkpoint, "--eval-steps", "2"};
    const Outcome loss = run_process(joined(eval, {"--device", "cuda:sim"}));
    REQUIRE_MESSAGE(loss.status == 0, loss.err);
    const auto number = [](const std::string& line) {
      return std::stod(line.substr(line.find("validation loss ") + 16));
    };
    CHECK(std::abs(number(loss.out) - number(::gptlite(eval).out)) < 1e-5);
  }
}

TEST_CASE("gptlite: a device that is not there is one line that says what is missing") {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  const auto with = [&](const std::string& device) { return training(out, {"--device", device}); };
  if (!cuda_is_built()) {
    for (const char* device : {"cuda", "cuda:sim"})
      CHECK(contains(refused(with(device)), "this build has no CUDA backend"));
    return;
  }
  {
    const Environment library("TESSERA_CUDA_SIM_LIBRARY", "/nowhere");
    CHECK(contains(refused(with("cuda:sim")), "the simulated card's library was not found in /nowhere"));
  }
  // The simulated runtime as the machine's own: as many cards as it says.
  const Environment search("LD_LIBRARY_PATH", simulator.c_str());
  CHECK(contains(refused(with("cuda:7")), "expected an index from 0 to 0, there is 1 CUDA device"));
  const Environment none("TESSERA_CUDA_SIM_DEVICES", "0");
  CHECK(contains(refused(with("cuda")), "no CUDA device: the driver sees no card"));
  for (const char* command : {"sample", "eval"})
    CHECK(contains(refused({command, "--checkpoint", out, "--device", "cuda"}), "no CUDA device"));
  CHECK(!std::filesystem::exists(out));
}

TEST_CASE("gptlite: ranks and pipelines on a CUDA device are refused, with what to do") {
  if (!cuda_is_built()) return;
  const TemporaryFolder folder;
  const std::string line =
      refused(training(folder / "out", {"--device", "cuda:sim", "--virtual-ranks", "2"}));
  CHECK(contains(line, "--device cuda:sim: ranks compute on the CPU; leave out --virtual-ranks"));
}

TEST_CASE("gptlite: without enough memory on the device, what was asked, what is held, what would fit") {
  if (!cuda_is_built()) return;
  const TemporaryFolder folder;
  const Environment memory("TESSERA_CUDA_SIM_MEMORY", "8M");
  const std::string line =
      refused(training(folder / "out", {"--device", "cuda:sim", "--n-embd", "256", "--quiet"}), /*status=*/1);
  CHECK(contains(line, "out of memory on cuda:0: "));
  CHECK(contains(line, "bytes were requested, and at most "));
  CHECK(contains(line, "would fit; 8388608 bytes are there"));
  CHECK(contains(line, "other devices included: parameter "));
}
