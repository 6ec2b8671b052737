#include <doctest/doctest.h>
#include <json/json.h>
#include <signal.h>

#include <cmath>
#include <thread>

#include "dist/checkpoint/checkpoint_reader.h"
#include "tests/tools/child_process.h"
#include "tests/tools/gptlite_program.h"
#include "tests/tools/mpi_program.h"

// gptlite on many ranks, compared with the run of one process with the same global batch.

namespace {

using Losses = std::vector<std::pair<int64_t, double>>;
using Flags = std::vector<std::string>;

struct StrategyCase {
  std::string name;
  Flags flags;
};

/// Every strategy; the hybrid ones need groups of two ranks.
const std::vector<StrategyCase> strategy_cases = {
    {"no_shard", {"--strategy", "no_shard", "--bucket-bytes", "4096"}},
    {"shard_optim", {"--strategy", "shard_optim"}},
    {"shard_grad_op", {"--strategy", "shard_grad_op"}},
    {"full_shard", {"--strategy", "full_shard"}},
    {"hybrid_shard", {"--strategy", "hybrid_shard", "--shard-group-size", "2"}},
    {"hybrid_shard_zero2", {"--strategy", "hybrid_shard_zero2", "--shard-group-size", "2"}}};

/// The flags of a run of 30 steps with dropout and clipping, which writes to files by its `name`.
Flags training(const TemporaryFolder& folder, const std::string& name, const Flags& more,
               const std::string& steps = "30") {
  Flags flags = {
      "--steps", steps,  "--n-layer", "2",           "--batch-size", "12",        "--dropout",
      "0.1",     "--lr", "0.01",      "--grad-clip", "0.5",          "--metrics", folder / (name + ".jsonl")};
  flags.insert(flags.end(), more.begin(), more.end());
  return tiny_training(folder / name, flags);
}

Losses train(const TemporaryFolder& folder, const std::string& name, const Flags& more,
             const std::string& steps = "30") {
  const Outcome outcome = gptlite(training(folder, name, more, steps));
  REQUIRE_MESSAGE(outcome.status == 0, name, ": ", outcome.err);
  return losses_of(folder / (name + ".jsonl"));
}

Flags joined(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Gradients are summed in another order, in f32: after 30 steps of rate 0.01 that is some 1e-5 of a loss.
void check_same_losses(const Losses& losses, const Losses& expected, double tolerance = 1e-3) {
  REQUIRE(losses.size() == expected.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    CHECK(losses[i].first == expected[i].first);
    CHECK(std::abs(losses[i].second - expected[i].second) < tolerance);
  }
}

std::vector<Json::Value> lines_of(const std::string& path) {
  std::vector<Json::Value> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream text(line);
    std::string errors;
    lines.emplace_back();
    REQUIRE(Json::parseFromStream(Json::CharReaderBuilder(), text, &lines.back(), &errors));
  }
  return lines;
}

}  // namespace

TEST_CASE("gptlite on ranks as threads: every strategy has the losses of one process with the same batch") {
  const TemporaryFolder folder;
  const Losses single = train(folder, "single", {});
  REQUIRE(single.size() == 30);
  for (const StrategyCase& strategy : strategy_cases)
    for (const std::string ranks : {"2", "4"}) {
      CAPTURE(strategy.name);
      CAPTURE(ranks);
      check_same_losses(
          train(folder, strategy.name + ranks, joined(strategy.flags, {"--virtual-ranks", ranks})), single);
    }
}

TEST_CASE(
    "gptlite on ranks: one rank with a strategy, micro-batches, wrapping and prefetching change no loss") {
  const TemporaryFolder folder;
  const Losses single = train(folder, "single", {}, "12");
  const std::vector<Flags> variants = {
      {"--strategy", "full_shard"},
      {"--strategy", "no_shard", "--virtual-ranks", "1"},
      {"--virtual-ranks", "3", "--micro-batch-size", "2"},
      {"--virtual-ranks", "2", "--micro-batch-size", "2", "--accumulate-communication"},
      {"--virtual-ranks", "2", "--strategy", "shard_grad_op", "--micro-batch-size", "3"},
      {"--virtual-ranks", "2", "--strategy", "no_shard", "--micro-batch-size", "3",
       "--accumulate-communication"},
      {"--virtual-ranks", "2", "--auto-wrap", "none"},
      {"--virtual-ranks", "2", "--auto-wrap", "size:1000", "--backward-prefetch", "post"},
      {"--virtual-ranks", "2", "--backward-prefetch", "none"},
      {"--virtual-ranks", "2", "--activation-checkpoint-interval", "1"},
      {"--virtual-ranks", "4", "--strategy", "hybrid_shard", "--shard-group-size", "4"}};
  for (size_t i = 0; i < variants.size(); ++i) {
    CAPTURE(i);
    check_same_losses(train(folder, std::to_string(i), variants[i], "12"), single);
  }
}

TEST_CASE("gptlite on ranks: bf16 by the sharding's precision has the losses of one bf16 process, to bf16") {
  const TemporaryFolder folder;
  const Losses single = train(folder, "single", {"--dtype", "bf16"}, "12");
  for (const StrategyCase& strategy : strategy_cases) {
    CAPTURE(strategy.name);
    // A loss near 3 of values rounded to 8 bits, with sums in another order.
    check_same_losses(train(folder, strategy.name,
                            joined(strategy.flags, {"--dtype", "bf16", "--virtual-ranks", "4"}), "12"),
                      single, 0.02);
  }
}

TEST_CASE("gptlite on ranks: the validation loss of all ranks is that of one process, also where sampled") {
  const TemporaryFolder folder;
  for (const std::string batches : {"0", "3"}) {
    const Flags flags = {"--eval-interval", "2", "--eval-steps", batches, "--block-size", "100"};
    const auto validation = [&](const std::string& name, const Flags& more) {
      train(folder, name + batches, joined(flags, more), "2");
      return lines_of(folder / (name + batches + ".jsonl")).at(2)["val_loss"].asDouble();
    };
    const double single = validation("single", {});
    CHECK(single > 1);
    CHECK(validation("two", {"--virtual-ranks", "2"}) == doctest::Approx(single).epsilon(1e-5));
    CHECK(validation("three", {"--virtual-ranks", "3"}) == doctest::Approx(single).epsilon(1e-5));
  }
}

TEST_CASE("gptlite on ranks: a metrics file for each, with the common loss and the rank's own bytes") {
  const TemporaryFolder folder;
  train(folder, "run", {"--virtual-ranks", "3"}, "3");
  const std::string files[] = {folder / "run.jsonl", folder / "run.rank1.jsonl", folder / "run.rank2.jsonl"};
  const std::vector<Json::Value> first = lines_of(files[0]);
  REQUIRE(first.size() == 5);
  CHECK(first[0]["parallel"]["strategy"] == "full_shard");
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<Json::Value> lines = lines_of(files[rank]);
    REQUIRE(lines.size() == 5);
    for (size_t i = 1; i < 4; ++i) {
      const Json::Value& line = lines[i];
      CHECK(line["rank"] == rank);
      CHECK(line["world_size"] == 3);
      CHECK(line["loss"] == first[i]["loss"]);
      CHECK(line["grad_norm"] == first[i]["grad_norm"]);
      CHECK(line["comm_ops"].asInt64() > 0);
      CHECK(line["comm_bytes"].asInt64() > 0);
      CHECK(line["memory_by_category"]["communication"].asInt64() > 0);
    }
  }
  CHECK(!std::filesystem::exists(folder / "run.rank3.jsonl"));
}

TEST_CASE("gptlite on ranks: a run resumes with any number of ranks and any strategy") {
  const TemporaryFolder folder;
  const Losses single = train(folder, "single", {}, "24");
  const std::vector<Flags> segments = {
      {"--virtual-ranks", "2"},
      {"--virtual-ranks", "4", "--strategy", "hybrid_shard", "--shard-group-size", "2"},
      {},
      {"--virtual-ranks", "3", "--strategy", "shard_optim"},
      {"--virtual-ranks", "2", "--strategy", "no_shard"},
      {"--virtual-ranks", "4", "--strategy", "shard_grad_op"}};
  const std::string metrics = folder / "broken.jsonl", out = folder / "broken";
  REQUIRE(gptlite(training(folder, "broken",
                           joined({"--checkpoint-interval", "4", "--keep", "9"}, segments[0]), "24"))
              .status == 0);
  for (size_t i = 1; i < segments.size(); ++i) {
    // Back to the step where this segment begins: later checkpoints are deleted.
    for (const auto& entry : std::filesystem::directory_iterator(out))
      if (const auto step = tessera::dist::parse_step_name(entry.path().filename().string());
          step && *step > static_cast<int64_t>(4 * i))
        std::filesystem::remove_all(entry.path());
    tessera::dist::write_pointer(out, tessera::dist::latest_name, static_cast<int64_t>(4 * i));
    std::filesystem::remove(metrics);
    const Flags flags = training(
        folder, "broken",
        joined({"--checkpoint-interval", "4", "--keep", "9", "--resume", "latest"}, segments[i]), "24");
    const Outcome outcome = gptlite(flags);
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
    check_same_losses(losses_of(metrics),
                      {single.begin() + static_cast<std::ptrdiff_t>(4 * i), single.end()});
  }
  CHECK(gptlite({"sample", "--checkpoint", out, "--length", "5"}).status == 0);
}

TEST_CASE("gptlite on ranks: Ctrl-C, SIGTERM and SIGUSR1 stop all at one step, which is saved") {
  const TemporaryFolder folder;
  const std::pair<int, int> expected[] = {{SIGINT, 130}, {SIGTERM, 143}, {SIGUSR1, 0}};
  for (const auto& [signal, status] : expected) {
    const std::string name = "signal" + std::to_string(signal), metrics = folder / (name + ".jsonl");
    ChildProcess child(
        "gptlite", training(folder, name, {"--virtual-ranks", "3", "--checkpoint-interval", "0"}, "1000000"),
        {.output = folder / (name + ".log")});
    while (child.is_running() && losses_of(metrics).size() < 3)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    child.send(signal);
    CHECK(child.wait() == status);
    const Losses losses = losses_of(metrics);
    REQUIRE(!losses.empty());
    CHECK(tessera::dist::CheckpointReader(tessera::dist::find_checkpoint(folder / name)).state().step ==
          losses.back().first);
    CHECK(losses_of(folder / (name + ".rank2.jsonl")) == losses);
  }
}

TEST_CASE("gptlite on ranks: two runs of one world have the same bits, and so has a resumed one") {
  const TemporaryFolder folder;
  const Flags three = {"--virtual-ranks", "3", "--checkpoint-interval", "6"};
  const Losses first = train(folder, "first", three, "12");
  CHECK(first == train(folder, "second", three, "12"));
  CHECK(first == train(folder, "ddp", joined(three, {"--strategy", "no_shard"}), "12"));
  const Losses resumed =
      train(folder, "resumed", joined(three, {"--resume", folder / "first/step-00000006"}), "12");
  CHECK(resumed == Losses(first.begin() + 6, first.end()));
}

TEST_CASE("gptlite on ranks: checkpoints saved in the background equal those saved between steps") {
  const TemporaryFolder folder;
  const Flags two = {"--virtual-ranks", "2", "--checkpoint-interval", "3", "--keep", "9"};
  train(folder, "direct", two, "12");
  train(folder, "background", joined(two, {"--async-save"}), "12");
  const auto direct = snapshot(folder / "direct");
  CHECK(direct.size() == 4 * 5 + 1);  // four checkpoints of two files a rank and meta.json, and `latest`
  for (const auto& [path, bytes] : direct)
    CHECK(file_bytes(folder / "background" + path.substr((folder / "direct").size())) == bytes);
}

TEST_CASE("gptlite on ranks: an error on one rank, or on all, gives one message and its exit status") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "one.rank1.jsonl");  // which rank 1 cannot write to
  const Outcome one = gptlite(training(folder, "one", {"--virtual-ranks", "3"}));
  CHECK(one.status == 2);
  CHECK_MESSAGE(is_one_error_line(one.err), one.err);
  CHECK_MESSAGE(contains(one.err, "one.rank1.jsonl"), one.err);
  CHECK(!std::filesystem::exists(folder / "one/latest"));
  for (const StrategyCase& strategy : strategy_cases) {
    // After a step at that rate the loss is not finite.
    const Outcome all = gptlite(
        tiny_training(folder / strategy.name,
                      joined(strategy.flags, {"--steps", "9", "--virtual-ranks", "2", "--lr", "1e38"})));
    CHECK_MESSAGE(all.status == 4, strategy.name, ": ", all.err);
    CHECK_MESSAGE(is_one_error_line(all.err), all.err);
  }
}

TEST_CASE("gptlite on ranks: the memory plan of a rank is close to the measured peak") {
  const TemporaryFolder folder;
  const Flags larger = {"--n-embd", "64", "--block-size", "64", "--n-head", "4"};
  for (const StrategyCase& strategy : strategy_cases)
    for (const std::string dtype : {"fp32", "bf16"}) {
      const std::string name = strategy.name + dtype;
      train(folder, name, joined(joined(strategy.flags, larger), {"--virtual-ranks", "4", "--dtype", dtype}),
            "3");
      const Json::Value end = lines_of(folder / (name + ".jsonl")).back();
      CAPTURE(name);
      const double measured = end["memory_peak"].asDouble(), planned = end["memory_planned"].asDouble();
      // The plan adds all temporary bytes to the peak of activations, though they need not coincide.
      CHECK(planned >= 0.98 * measured);
      CHECK(planned <= 1.2 * measured);
      CHECK(end["memory_planned_at_peak"]["parameter"] == end["memory_at_peak"]["parameter"]);
    }
}

TEST_CASE("gptlite on ranks: a profile has the rows of all ranks") {
  const TemporaryFolder folder;
  const std::string trace = folder / "trace.json";
  train(folder, "run", {"--virtual-ranks", "2", "--profile", trace, "--profile-steps", "3:4"}, "5");
  const std::string bytes = file_bytes(trace);
  for (const char* text : {"all_gather", "reduce_scatter", "\"pid\":0", "\"pid\":1"})
    CHECK_MESSAGE(contains(bytes, text), text);
  CHECK(!std::filesystem::exists(folder / "trace.rank1.json"));
}

TEST_CASE("gptlite --explain on ranks: options, mesh, units, bytes and traffic; nothing is written") {
  const TemporaryFolder folder;
  const Outcome outcome = gptlite(training(
      folder, "out",
      {"--virtual-ranks", "4", "--strategy", "hybrid_shard", "--shard-group-size", "2", "--explain"}));
  REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
  for (const char* text :
       {"--virtual-ranks", "--shard-group-size", "hybrid_shard", "replica", "blocks.0 to blocks.1",
        "model state", "sent by each rank in a step", "optimizer state"})
    CHECK_MESSAGE(contains(outcome.out, text), text, " in ", outcome.out);
  CHECK(!std::filesystem::exists(folder / "out"));
  CHECK(!std::filesystem::exists(folder / "out.jsonl"));
}
