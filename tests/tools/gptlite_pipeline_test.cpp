// gptlite in stages of a pipeline, beside the run of one process with the same global batch.

#include <doctest/doctest.h>
#include <json/json.h>

#include <cmath>
#include <set>
#include <sstream>

#include "tests/tools/child_process.h"
#include "tests/tools/gptlite_program.h"
#include "tests/tools/mpi_program.h"

namespace {

using Losses = std::vector<std::pair<int64_t, double>>;
using Flags = std::vector<std::string>;

/// A run with dropout, clipping and validations.
Flags training(const TemporaryFolder& folder, const std::string& name, const Flags& more,
               const std::string& steps = "20") {
  Flags flags = {"--steps",
                 steps,
                 "--n-layer",
                 "4",
                 "--batch-size",
                 "16",
                 "--micro-batch-size",
                 "2",
                 "--dropout",
                 "0.1",
                 "--grad-clip",
                 "0.5",
                 "--eval-interval",
                 "10",
                 "--eval-steps",
                 "2",
                 "--metrics",
                 folder / (name + ".jsonl")};
  flags.insert(flags.end(), more.begin(), more.end());
  return tiny_training(folder / name, flags);
}

Losses train(const TemporaryFolder& folder, const std::string& name, const Flags& more,
             const std::string& steps = "20") {
  const Outcome outcome = gptlite(training(folder, name, more, steps));
  REQUIRE_MESSAGE(outcome.status == 0, name, ": ", outcome.err);
  return losses_of(folder / (name + ".jsonl"));
}

void check_same_losses(const Losses& losses, const Losses& expected) {
  REQUIRE(losses.size() == expected.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    CHECK(losses[i].first == expected[i].first);
    CHECK(std::abs(losses[i].second - expected[i].second) < 1e-4);
  }
}

Json::Value last_line(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) last = line;
  Json::Value value;
  std::istringstream(last) >> value;
  return value;
}

std::string error_of(const Flags& more) {
  const TemporaryFolder folder;
  const Outcome outcome = gptlite(training(folder, "refused", more));
  CHECK(outcome.status == 2);
  CHECK(!std::filesystem::exists(folder / "refused"));
  return outcome.err;
}

}  // namespace

TEST_CASE("gptlite in stages: schedules and strategies have the losses of one process") {
  const TemporaryFolder folder;
  const Losses alone = train(folder, "alone", {});
  const std::vector<std::pair<std::string, Flags>> runs = {
      {"two", {"--virtual-ranks", "2", "--pipeline-stages", "2"}},
      {"zb-h1", {"--virtual-ranks", "4", "--pipeline-stages", "4", "--pipeline-schedule", "zb-h1"}},
      {"interleaved",
       {"--virtual-ranks", "2", "--pipeline_num_stages=2", "--pipeline-schedule", "interleaved",
        "--pipeline-chunks", "2", "--partition-method", "uniform"}},
      {"mesh", {"--virtual-ranks", "4", "--pipeline-parallel-size", "2"}},
      {"full_shard", {"--virtual-ranks", "4", "--pipeline-stages", "2", "--strategy", "full_shard"}},
      {"hybrid_shard",
       {"--virtual-ranks", "8", "--pipeline-stages", "2", "--strategy", "hybrid_shard", "--shard-group-size",
        "2"}},
      {"checkpointing",
       {"--virtual-ranks", "2", "--pipeline-stages", "2", "--activation_checkpoint_interval", "1",
        "--pipeline_spec_layers"}}};
  for (const auto& [name, flags] : runs) {
    CAPTURE(name);
    check_same_losses(train(folder, name, flags), alone);
  }
}

TEST_CASE("gptlite: inputs of checkpointed layers on the host and in a file leave every loss as it is") {
  const TemporaryFolder folder;
  const Flags segments{"--activation-checkpoint-interval", "1"};
  const auto run = [&](const std::string& name, Flags flags) {
    flags.insert(flags.end(), segments.begin(), segments.end());
    const Losses losses = train(folder, name, flags);
    return std::pair(losses, last_line(folder / (name + ".jsonl"))["memory_at_peak"]["activation"].asInt64());
  };
  for (const Flags& stages : {Flags{}, Flags{"--virtual-ranks", "2", "--pipeline-stages", "2"}}) {
    const std::string name = "run-" + std::to_string(stages.size());
    const auto [losses, bytes] = run(name, stages);
    for (const std::string& place : {std::string("cpu"), folder / "."}) {
      Flags flags = stages;
      flags.insert(flags.end(), {"--activation-offload", place});
      const auto [same, less] = run(name + (place == "cpu" ? "-cpu" : "-file"), flags);
      CHECK(same == losses);
      CHECK(less < bytes);
    }
  }
}

TEST_CASE("gptlite in stages: a trace has the actions of training, and metrics what each rank did") {
  const TemporaryFolder folder;
  train(folder, "run",
        {"--virtual-ranks", "2", "--pipeline-stages", "2", "--profile", folder / "trace.json",
         "--profile-steps", "5:15"});
  Json::Value trace;
  std::istringstream(file_bytes(folder / "trace.json")) >> trace;
  std::set<std::pair<int, int>> rows;
  for (const Json::Value& event : trace["traceEvents"])
    if (event["name"] == "thread_name" && event["args"]["name"] == "pipeline")
      rows.emplace(event["pid"].asInt(), event["tid"].asInt());
  CHECK(rows.size() == 2);
  const auto count = [&](const char* action) {
    int found = 0;
    for (const Json::Value& event : trace["traceEvents"])
      if (event["ph"] == "X" && event["name"] == action &&
          rows.contains({event["pid"].asInt(), event["tid"].asInt()}))
        ++found;
    return found;
  };
  // The evaluation after step 10 has forwards too, which are no actions of a step.
  CHECK(count("0B0") > 0);
  CHECK(count("0F0") == count("0B0"));
  CHECK(count("1F7") == count("1B7"));
  std::ifstream metrics(folder / "run.jsonl");
  int steps = 0;
  for (std::string line; std::getline(metrics, line);) {
    Json::Value row;
    std::istringstream(line) >> row;
    if (!row.isMember("loss")) continue;
    ++steps;
    REQUIRE(row["stages"].size() == 2);
    CHECK(row["stages"][0]["live"].asInt() == 2);
    CHECK(row["stages"][1]["live"].asInt() == 1);
    for (const Json::Value& stage : row["stages"]) {
      CHECK(stage["busy_ms"].asDouble() > 0);
      CHECK(stage["idle"].asDouble() >= 0);
      CHECK(stage["idle"].asDouble() < 1);
    }
  }
  CHECK(steps == 20);
  CHECK(error_of({"--activation-offload", "cpu"})
            .find("expected `--activation-checkpoint-interval` beside it") != std::string::npos);
}

TEST_CASE("gptlite in stages: a checkpoint of any mesh is resumed on any other") {
  const TemporaryFolder folder;
  const Losses alone = train(folder, "alone", {}, "30");
  const Flags end{"--steps", "30", "--checkpoint-interval", "10"};
  const auto with = [](Flags flags, const Flags& more) {
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  };
  // Each run stops at a checkpoint: steps that are not a run's last one leave the schedule as it is.
  const std::vector<Flags> meshes = {
      {"--virtual-ranks", "2", "--pipeline-stages", "2"},
      {"--virtual-ranks", "4", "--pipeline-stages", "2", "--strategy", "full_shard"},
      {}};
  Outcome outcome = gptlite(training(folder, "run", with(end, meshes[0]), "30"));
  REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
  for (const Flags& mesh : meshes) {
    const TemporaryFolder copy;
    std::filesystem::copy(folder / "run", copy / "run", std::filesystem::copy_options::recursive);
    Flags resume = {"train", "--resume", copy / "run" + "/step-00000010", "--metrics",
                    copy / "metrics.jsonl"};
    outcome = gptlite(with(resume, mesh));
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
    const Losses rest = losses_of(copy / "metrics.jsonl");
    REQUIRE(rest.size() == 20);
    check_same_losses(rest, Losses(alone.begin() + 10, alone.end()));
  }
}

TEST_CASE("gptlite in stages: a checkpoint of batches that the ranks do not divide is resumed") {
  const TemporaryFolder folder;
  const Flags batch{"--batch-size", "9", "--micro-batch-size", "9", "--checkpoint-interval", "2"};
  const Flags stages{"--virtual-ranks", "2", "--pipeline-stages", "2"};
  const Losses alone = train(folder, "alone", batch, "4");
  Flags flags = batch;
  flags.insert(flags.end(), stages.begin(), stages.end());
  train(folder, "run", flags, "4");
  for (const Flags& mesh : {Flags{}, stages}) {
    const TemporaryFolder copy;
    std::filesystem::copy(folder / "run", copy / "run", std::filesystem::copy_options::recursive);
    Flags resume{"train", "--resume", copy / "run" + "/step-00000002", "--metrics", copy / "metrics.jsonl"};
    resume.insert(resume.end(), mesh.begin(), mesh.end());
    const Outcome outcome = gptlite(resume);
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
    check_same_losses(losses_of(copy / "metrics.jsonl"), Losses(alone.begin() + 2, alone.end()));
  }
}

TEST_CASE("gptlite in stages: --explain has the cut, the schedule and the bubble") {
  const TemporaryFolder folder;
  const Outcome outcome =
      gptlite(training(folder, "explained", {"--virtual-ranks", "2", "--pipeline-stages", "2", "--explain"}));
  REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
  CHECK(outcome.out.find("RANK=0 STAGE=0 LAYERS=3 [0, 3) STAGE_PARAMS=") != std::string::npos);
  CHECK(outcome.out.find("rank 1 .  F0 B0 F1 B1") != std::string::npos);
  CHECK(outcome.out.find("bubble 11.1 % of a step") != std::string::npos);
  CHECK(outcome.out.find("predicted, by FLOPs and bytes and the rates of this machine\nstep  ") !=
        std::string::npos);
}

TEST_CASE("gptlite in stages: the memory that is planned is the memory that is used") {
  const TemporaryFolder folder;
  const std::vector<Flags> runs = {{"--virtual-ranks", "2"},
                                   {"--virtual-ranks", "2", "--pipeline-schedule", "zb-v"},
                                   {"--virtual-ranks", "2", "--activation-checkpoint-interval", "1"},
                                   {"--virtual-ranks", "2", "--partition-method", "profile"},
                                   {"--virtual-ranks", "2", "--partition-method", "memory"},
                                   {"--virtual-ranks", "4", "--strategy", "full_shard"},
                                   {"--virtual-ranks", "4", "--strategy", "shard_optim"}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string name = "planned-" + std::to_string(i);
    Flags flags = {"--pipeline-stages",  "2", "--n-embd",     "64", "--block-size", "64",
                   "--n-head",           "4", "--batch-size", "32", "--grad-clip",  "0",
                   "--micro-batch-size", "4"};
    flags.insert(flags.end(), runs[i].begin(), runs[i].end());
    train(folder, name, flags, "3");
    const Json::Value end = last_line(folder / (name + ".jsonl"));
    const double measured = end["memory_peak"].asDouble(), planned = end["memory_planned"].asDouble();
    CAPTURE(i);
    CHECK(std::abs(planned - measured) <= 0.05 * measured);
  }
}

TEST_CASE("gptlite in stages: what does not fit is refused before anything starts") {
  CHECK(error_of({"--pipeline-stages", "2"}) ==
        "gptlite: --pipeline-stages 2: expected a divisor of the 1 rank\n");
  CHECK(error_of({"--virtual-ranks", "4", "--pipeline-stages", "3"}) ==
        "gptlite: --pipeline-stages 3: expected a divisor of the 4 ranks\n");
  CHECK(error_of({"--pipeline-schedule", "zb-h1"}) ==
        "gptlite: --pipeline-schedule is about stages, and this run has no `--pipeline-stages`\n");
  CHECK(error_of({"--virtual-ranks", "2", "--pipeline-stages", "2", "--pipeline-schedule", "1f2b"}) ==
        "gptlite: --pipeline-schedule: expected gpipe, 1f1b, interleaved, zb-h1, zb-v or breadth-first, or a "
        "file FILE.csv, got '1f2b'\n");
  CHECK(error_of({"--pipeline-most-live", "2"}) ==
        "gptlite: --pipeline-most-live is about stages, and this run has no `--pipeline-stages`\n");
}

TEST_CASE("gptlite in stages: a schedule from a CSV file has the losses of one process") {
  const TemporaryFolder folder;
  const Losses alone = train(folder, "alone", {});
  const std::string mine = folder / "mine.csv", chunks = folder / "chunks.csv";
  // More forwards first than 1F1B has, and a V of two chunks on each rank; evaluations have one micro-batch.
  std::ofstream(mine) << "0F0,0F1,0F2,0B0,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n";
  std::ofstream(chunks) << "0F0,0F1,3F0,3B0,3F1,3I1,3W1,0B0,0B1\n1F0,2F0,1F1,2F1,2B0,1B0,2B1,1I1,1W1\n";
  const Flags stages{"--virtual-ranks", "2", "--pipeline-stages", "2"};
  const auto with = [&](const std::string& file, const char* micro_batch) {
    Flags flags = stages;
    flags.insert(flags.end(), {"--pipeline-schedule", file, "--micro-batch-size", micro_batch});
    return flags;
  };
  check_same_losses(train(folder, "mine", with(mine, "4")), alone);
  check_same_losses(train(folder, "chunks", with(chunks, "8")), alone);
  // Without a size of micro-batches the table has it.
  Flags explain = tiny_training(folder / "explained", stages);
  explain.insert(explain.end(),
                 {"--batch-size", "16", "--n-layer", "4", "--pipeline-schedule", mine, "--explain"});
  const Outcome outcome = gptlite(explain);
  REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
  CHECK(outcome.out.find("rank 0 F0 F1 F2 B0 B1 F3 B2 B3") != std::string::npos);
  CHECK(outcome.out.find("derived: the micro-batches of the table") != std::string::npos);
  CHECK(outcome.out.find(mine) != std::string::npos);
}

TEST_CASE("gptlite in stages: a schedule's file that cannot run is refused with the cell") {
  const TemporaryFolder folder;
  const std::string file = folder / "mine.csv";
  const auto refusal = [&](const std::string& table, const char* micro_batch, const Flags& more = {}) {
    std::ofstream(file) << table;
    Flags flags{"--virtual-ranks",     "2",  "--pipeline-stages",  "2",
                "--pipeline-schedule", file, "--micro-batch-size", micro_batch};
    flags.insert(flags.end(), more.begin(), more.end());
    const std::string err = error_of(flags);
    CHECK(is_one_error_line(err));
    return err;
  };
  const std::string name = "gptlite: schedule '" + file + "': ";
  CHECK(refusal("0F0,0B0,0F1,0B1\n1F0,1F1,1B1,1B0\n", "8") ==
        name +
            "rank 0, slot 1 (0B0) waits for 1B0 of rank 1, and rank 1, slot 1 (1F1) waits for 0F1 of rank "
            "0: a deadlock\n");
  CHECK(refusal("0F0,0B0,0F1\n1F0,1B0,1F1,1B1\n", "8") ==
        name + "rank 0, slot 2 (0F1): micro-batch 1 has no backward through stage 0\n");
  CHECK(contains(refusal("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n", "16"),
                 name + "rank 0, slot 1 (0SEND_F0): "));
  CHECK(refusal("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n", "8", {"--pipeline-most-live", "1"}) ==
        name + "rank 0, slot 1 (0F1): 2 micro-batches are live, of at most 1\n");
  CHECK(refusal("0F0,0B0\n1F0,1B0\n", "8") ==
        name + "expected a table of 2 ranks and 2 micro-batches, got 2 and 1\n");
  CHECK(refusal("0F0,0B0\n", "16") ==
        name + "expected a table of 2 ranks and 1 micro-batches, got 1 and 1\n");
  CHECK(refusal("0F0,0Q0\n", "16").starts_with(name + "rank 0, slot 1: '0Q0' is no action: "));
  CHECK(refusal("0F0,0B0\n1F0,1B0\n", "16", {"--pipeline-chunks", "2"}) ==
        "gptlite: pipeline_chunks 2: the table in '" + file + "' has its own\n");
  std::filesystem::remove(file);
  CHECK(error_of({"--virtual-ranks", "2", "--pipeline-stages", "2", "--pipeline-schedule", file}) ==
        "gptlite: schedule: cannot read '" + file + "'\n");
  // Generated ones are held to the limit too.
  CHECK(error_of({"--virtual-ranks", "2", "--pipeline-stages", "2", "--pipeline-schedule", "gpipe",
                  "--pipeline-most-live", "3"}) ==
        "gptlite: schedule 'gpipe': rank 0, slot 3 (0F3): 4 micro-batches are live, of at most 3\n");
  Flags three = tiny_training(folder / "three", {"--virtual-ranks", "2", "--pipeline-stages", "2"});
  std::ofstream(file) << "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n";
  three.insert(three.end(), {"--batch-size", "16", "--pipeline-schedule", file});
  CHECK(gptlite(three).err == "gptlite: --pipeline-schedule " + file +
                                  ": its 3 micro-batches do not divide the 16 sequences of a pipeline\n");
}

TEST_CASE("gptlite in stages: under mpirun, with the losses of one process") {
  if (mpirun_or_message().empty()) return;
  const TemporaryFolder folder;
  const Losses alone = train(folder, "alone", {});
  const std::vector<std::pair<int, Flags>> meshes = {
      {2, {"--pipeline-stages", "2"}}, {4, {"--pipeline-stages", "2", "--strategy", "full_shard"}}};
  for (const auto& [ranks, flags] : meshes) {
    const std::string name = "mpi-" + std::to_string(ranks);
    ChildProcess child(mpirun_or_message(), on_ranks(ranks, training(folder, name, flags)),
                       {.output = folder / (name + ".log")});
    REQUIRE_MESSAGE(child.wait() == 0, file_bytes(folder / (name + ".log")));
    check_same_losses(losses_of(folder / (name + ".jsonl")), alone);
  }
}

TEST_CASE("gptlite: a budget of activations holds, alone and in stages, and leaves every loss as it is") {
  const TemporaryFolder folder;
  const Flags larger{"--n-embd",     "64", "--n-head",    "4", "--block-size",       "64",
                     "--batch-size", "32", "--grad-clip", "0", "--micro-batch-size", "4"};
  struct Result {
    Losses losses;
    double activations = 0, peak = 0, planned = 0;
  };
  const auto run = [&](const std::string& name, Flags flags, const Flags& more) {
    flags.insert(flags.end(), larger.begin(), larger.end());
    flags.insert(flags.end(), more.begin(), more.end());
    const Losses losses = train(folder, name, flags, "3");
    const Json::Value end = last_line(folder / (name + ".jsonl"));
    return Result{losses, end["memory_at_peak"]["activation"].asDouble(), end["memory_peak"].asDouble(),
                  end["memory_planned"].asDouble()};
  };
  int number = 0;
  for (const Flags& mesh :
       {Flags{},
        {"--virtual-ranks", "2", "--pipeline-stages", "2"},
        {"--virtual-ranks", "2", "--pipeline-stages", "2", "--pipeline-schedule", "gpipe"},
        {"--virtual-ranks", "4", "--pipeline-stages", "2", "--strategy", "full_shard"}}) {
    const std::string name = "run-" + std::to_string(number++);
    CAPTURE(name);
    const Result all = run(name, mesh, {});
    for (const char* budget : {"85%", "70%"}) {
      const Result less =
          run(name + "-" + std::string(budget, 2), mesh, {"--activation-checkpoint-budget", budget});
      CHECK(less.losses == all.losses);
      CHECK(less.activations <= 1.02 * (budget[0] == '7' ? 0.7 : 0.85) * all.activations);
      CHECK(std::abs(less.planned - less.peak) <= 0.05 * less.peak);
    }
  }
}

TEST_CASE("gptlite: --explain prints what a budget of activations keeps, and bad budgets are refused") {
  const TemporaryFolder folder;
  const auto explain = [&](const Flags& more) {
    Flags flags{"--virtual-ranks", "2", "--pipeline-stages", "2", "--explain"};
    flags.insert(flags.end(), more.begin(), more.end());
    return gptlite(training(folder, "explained", flags));
  };
  const Outcome outcome = explain({"--activation-checkpoint-budget", "60%"});
  REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
  CHECK(contains(outcome.out, "activations           block by block, for a budget of 60%\n"));
  CHECK(contains(outcome.out, "': keep inputs"));
  CHECK(contains(outcome.out, "rank 0 of the pipeline: activations of "));
  CHECK(contains(outcome.out, "rank 1 of the pipeline: activations of "));
  const Outcome bytes = explain({"--activation-checkpoint-budget", "1GiB"});
  CHECK(contains(bytes.out, "': keep all\n"));
  CHECK(contains(bytes.out, "of at most 1.074 GB\nFLOPs 100.0 %\n"));
  for (const char* bad : {"0%", "101%", "12 apples", "-5MB", "50%%", "MB"})
    CHECK(error_of({"--activation-checkpoint-budget", bad}) ==
          "gptlite: --activation-checkpoint-budget '" + std::string(bad) +
              "': expected a part such as 25%, up to 100%, or bytes such as 500MB or 1.5GiB\n");
  CHECK(
      error_of({"--activation-checkpoint-budget", "50%", "--activation-checkpoint-interval", "1"}) ==
      "gptlite: --activation-checkpoint-budget 50% with --activation-checkpoint-interval 1: expected one of "
      "them, since the budget chooses what runs again\n");
  CHECK(contains(error_of({"--activation-checkpoint-budget", "50%", "--activation-offload", "cpu"}),
                 "with --activation-offload cpu: expected one of them"));
  const std::string least = error_of({"--activation-checkpoint-budget", "1kB"});
  CHECK(is_one_error_line(least));
  CHECK(contains(least, "gptlite: activation checkpointing: expected a budget of at least "));
  CHECK(contains(least, " bytes, the least that was found, got 1000\n"));
}
