// tessera plan: what it prints, and its errors.

#include <doctest/doctest.h>

#include <iterator>
#include <sstream>

#include "tensor/error.h"
#include "tests/tools/gptlite_program.h"
#include "tools/tessera/simulate/plan_training.h"

using namespace tessera;
using namespace tessera::tools;

namespace {

/// A cluster by its rates, so that nothing is measured.
PlanFlags cluster() {
  return {.preset = "nano",
          .ranks = 8,
          .ranks_per_node = 4,
          .batch_size = 32,
          .flops = 1e14,
          .memory_bandwidth = 1e12,
          .link_bandwidth = 1e11,
          .link_latency = 1e-6,
          .node_link_bandwidth = 1e10,
          .node_link_latency = 1e-5};
}

std::string planned(const PlanFlags& flags) {
  std::ostringstream out;
  plan_training(flags, out);
  return out.str();
}

/// The commands of the plans that were printed, without the program.
std::vector<std::vector<std::string>> commands(const std::string& output) {
  std::vector<std::vector<std::string>> found;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("gptlite train");
    if (at == std::string::npos) continue;
    std::istringstream words(line.substr(at + 8));
    found.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  return found;
}

}  // namespace

TEST_CASE("tessera plan: plans with predictions, reasons and commands") {
  const std::string output = planned(cluster());
  CHECK(output.starts_with(
      "nano, 32 sequences of 256 tokens a step on 8 ranks: 100 TFLOP/s, memory 1 TB/s, link 100 GB/s\n"));
  CHECK(output.find("\n1. ") != std::string::npos);
  CHECK(output.find("\n3. ") != std::string::npos);
  CHECK(output.find("\n4. ") == std::string::npos);
  CHECK(output.find(" ms a step, ") != std::string::npos);
  CHECK(output.find(" % slower") != std::string::npos);
  CHECK(output.find("   mpirun -n 8 gptlite train --preset nano --batch-size 32 --micro-batch-size ") !=
        std::string::npos);
}

TEST_CASE("tessera plan: gptlite accepts the commands") {
  PlanFlags flags = cluster();
  flags.preset = "nano-cpu";
  flags.ranks = 4;
  flags.ranks_per_node = 2;
  flags.batch_size = 8;
  flags.best = 40;
  const TemporaryFolder folder;
  int checked = 0;
  for (std::vector<std::string> command : commands(planned(flags))) {
    if (++checked % 8 != 1) continue;
    command.insert(command.end(),
                   {"--virtual-ranks", "4", "--explain", "--dataset", "builtin", "--out", folder / "run"});
    const Outcome outcome = gptlite(command);
    CHECK_MESSAGE(outcome.status == 0, outcome.err);
  }
  CHECK(checked == 40);
}

TEST_CASE("tessera plan: a limit of memory holds, or the smallest candidate is named") {
  PlanFlags flags = cluster();
  flags.memory = 1000;
  std::string message;
  try {
    planned(flags);
  } catch (const ConfigError& error) {
    message = error.what();
  }
  CHECK(message.starts_with("plan: none of "));
  CHECK(message.find(" candidates fits into 1 kB on a rank; the smallest takes ") != std::string::npos);
}

TEST_CASE("tessera plan: bad flags are refused") {
  PlanFlags flags = cluster();
  flags.memory_bandwidth = 0;
  CHECK_THROWS_WITH_AS(
      planned(flags),
      "plan: expected --flops, --memory-bandwidth and --link-bandwidth together, or none of them for "
      "the rates of this machine",
      ConfigError);
  flags = cluster();
  flags.dtype = "int8";
  CHECK_THROWS_WITH_AS(planned(flags), "plan: expected --dtype fp32 or bf16, got 'int8'", ConfigError);
  flags = cluster();
  flags.preset = "gpt5";
  CHECK_THROWS_AS(planned(flags), ConfigError);
  const auto refused = [](const auto& change) {
    PlanFlags wrong = cluster();
    change(wrong);
    CHECK_THROWS_AS(planned(wrong), ConfigError);
  };
  refused([](PlanFlags& f) { f.ranks = int64_t{1} << 32; });
  refused([](PlanFlags& f) { f.batch_size = INT64_MAX; });
  refused([](PlanFlags& f) { f.block_size = 1'000'000'000; });
  refused([](PlanFlags& f) { f.vocabulary = -5; });
  refused([](PlanFlags& f) { f.memory = uint64_t{9} << 60; });
  refused([](PlanFlags& f) { f.link_bandwidth = -3; });
  refused([](PlanFlags& f) {
    f.node_link_bandwidth = 0;
    f.node_link_latency = 1e-6;
  });
  flags = cluster();
  flags.ranks = 0;
  CHECK_THROWS_AS(planned(flags), ConfigError);
}
