// gptlite train --config: a configuration of DeepSpeed sets the options of a run.
#include <doctest/doctest.h>

#include "tests/tools/gptlite_program.h"

namespace {

namespace fs = std::filesystem;

using Flags = std::vector<std::string>;
using Losses = std::vector<std::pair<int64_t, double>>;

/// "train", the flags of a tiny model on the builtin play without evaluation, and `more`.
Flags tiny(const std::string& out, const Flags& more) {
  Flags all{"train", "--dataset", "builtin", "--n-layer",    "1",  "--n-embd",
            "32",    "--n-head",  "2",       "--block-size", "16", "--eval-interval",
            "0",     "--threads", "1",       "--out",        out};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Runs with a configuration: `keys` are those of ds.json, from its second line on.
struct ConfigFolder : TemporaryFolder {
  std::string place = *this / "ds.json";
  int runs = 0;

  explicit ConfigFolder(const std::string& keys) { write("ds.json", "{\n" + keys + "}\n"); }
  Outcome train(Flags more, bool has_config = true) {
    if (has_config) more.insert(more.end(), {"--config", place});
    return gptlite(tiny(*this / "run" + std::to_string(++runs), more));
  }
  Losses losses(Flags more, bool has_config = true) {
    const std::string metrics = *this / "run" + std::to_string(runs) + ".jsonl";
    more.insert(more.end(), {"--metrics", metrics});
    const Outcome outcome = train(more, has_config);
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
    return losses_of(metrics);
  }
};

/// The words of the line of --explain that begins with an option: its value, unit and origin.
std::string explained(const std::string& out, const std::string& option) {
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, word, rest;
    words >> first;
    if (first != option) continue;
    while (words >> word) rest += (rest.empty() ? "" : " ") + word;
    return rest;
  }
  return "";
}

const std::string all_keys = R"(  "train_batch_size": 16,
  "gradient_accumulation_steps": 4,
  "gradient_clipping": 0.25,
  "optimizer": {"type": "AdamW", "params": {
    "lr": 0.01, "betas": [0.8, 0.95],
    "eps": 1e-6, "weight_decay": "auto"}},
  "fp16": {"enabled": true,
    "loss_scale": 64},
  "zero_optimization": {"stage": 2,
    "reduce_bucket_size": 5e3, "overlap_comm": false}
)";

void check_refused(const std::string& keys, const Flags& flags, const std::string& message) {
  ConfigFolder folder(keys);
  const Outcome outcome = folder.train(flags);
  CAPTURE(outcome.err);
  CHECK(outcome.status == 2);
  CHECK(is_one_error_line(outcome.err));
  CHECK_MESSAGE(contains(outcome.err, message), "expected ", message);
  CHECK(!fs::exists(folder / "run1"));
}

}  // namespace

TEST_CASE("gptlite --config: its keys set options, and --explain gives the file and the line of each") {
  ConfigFolder folder(all_keys);
  const Outcome outcome = folder.train({"--virtual-ranks", "2", "--explain"});
  REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
  const auto check = [&](const char* option, const std::string& value, int line) {
    CHECK(explained(outcome.out, option) == value + " file " + folder.place + ":" + std::to_string(line));
  };
  check("batch_size", "16 sequences", 2);
  check("micro_batch_size", "2 sequences", 3);  // 16 / (4 * 2 ranks)
  check("grad_clip", "0.25", 4);
  check("lr", "0.01", 6);
  check("beta1", "0.8", 6);
  check("beta2", "0.95", 6);
  check("eps", "1e-06", 7);
  check("dtype", "fp16", 8);
  check("loss_scale", "64", 9);
  check("strategy", "shard_grad_op", 10);
  check("reduce_bucket_size", "5000 elements", 11);
  check("overlap_communication", "false", 11);
  CHECK(explained(outcome.out, "weight_decay") == "0.1 preset nano-cpu");  // "auto"
  CHECK(explained(outcome.out, "min_lr") == "0.001 derived: a tenth of --lr");
  CHECK(explained(outcome.out, "gather_bucket_size") == "0 elements default");
  CHECK(!fs::exists(folder / "run1"));
}

TEST_CASE("gptlite --config: sizes that the batch equation gives have the place of the key") {
  const auto sizes = [](const std::string& keys, Flags flags = {}) {
    ConfigFolder folder(keys);
    flags.insert(flags.end(), {"--virtual-ranks", "2", "--explain"});
    const Outcome outcome = folder.train(flags);
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
    const auto word = [&](const char* option) {
      const std::string all = explained(outcome.out, option);
      const std::string line = all.ends_with(":2") ? " line 2" : all.ends_with(":3") ? " line 3" : "";
      return all.substr(0, all.find(' ')) + line;
    };
    return word("batch_size") + ", " + word("micro_batch_size");
  };
  CHECK(sizes("\"gradient_clipping\": 1\n") == "12, 6");
  CHECK(sizes("\"train_batch_size\": 8\n") == "8 line 2, 4");
  CHECK(sizes("\"train_micro_batch_size_per_gpu\": 3\n") == "6 line 2, 3 line 2");
  CHECK(sizes("\"train_micro_batch_size_per_gpu\": 3,\n\"train_batch_size\": \"auto\"\n") == "12, 3 line 2");
  CHECK(sizes("\"train_micro_batch_size_per_gpu\": 3,\n\"gradient_accumulation_steps\": 4\n") ==
        "24 line 2, 3 line 2");
  CHECK(sizes("\n\"gradient_accumulation_steps\": 3\n") == "12, 2 line 3");
  CHECK(sizes("\n\"gradient_accumulation_steps\": 3\n", {"--batch-size", "24"}) == "24, 4 line 3");
}

TEST_CASE("gptlite --config: the losses of a run are those of the same run by flags, to the bit") {
  ConfigFolder folder(R"("train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 0.5,
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.05}},
    "bf16": {"enabled": true}
)");
  const Flags flags{"--batch-size",
                    "8",
                    "--micro-batch-size",
                    "2",
                    "--grad-clip",
                    "0.5",
                    "--lr",
                    "0.01",
                    "--beta1",
                    "0.8",
                    "--beta2",
                    "0.95",
                    "--eps",
                    "1e-6",
                    "--weight-decay",
                    "0.05",
                    "--dtype",
                    "bf16",
                    "--steps",
                    "4"};
  const Losses by_file = folder.losses({"--steps", "4"}), by_flags = folder.losses(flags, false);
  REQUIRE(by_file.size() == 4);
  CHECK(by_file == by_flags);
  Flags other = flags;
  other[15] = "0.5";  // the decay
  CHECK(folder.losses(other, false) != by_file);
}

TEST_CASE("gptlite --config: the same on two ranks with stage 2") {
  ConfigFolder folder(R"("train_batch_size": 8, "gradient_accumulation_steps": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 500}
)");
  const Losses by_file = folder.losses({"--steps", "4", "--virtual-ranks", "2"});
  const Losses by_flags =
      folder.losses({"--steps", "4", "--virtual-ranks", "2", "--batch-size", "8", "--micro-batch-size", "2",
                     "--lr", "0.01", "--strategy", "shard_grad_op", "--reduce-bucket-size", "500"},
                    false);
  REQUIRE(by_file.size() == 4);
  CHECK(by_file == by_flags);
}

TEST_CASE("gptlite --config: a flag that is given too wins, and a line says so") {
  ConfigFolder folder(
      "\"train_batch_size\": 8, \"gradient_clipping\": 0.5,\n\"mystery\": 1,\n"
      "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.01}}\n");
  const Outcome outcome =
      folder.train({"--lr", "0.02", "--batch-size", "4", "--grad-clip", "5e-1", "--steps", "1"});
  REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
  CHECK_MESSAGE(contains(outcome.out, "--lr 0.02 takes the place of 0.01 (" + folder.place + ":4)\n"),
                outcome.out);
  CHECK(contains(outcome.out, "--batch-size 4 takes the place of 8 (" + folder.place + ":2)\n"));
  CHECK(!contains(outcome.out, "--grad-clip"));  // the same value
  CHECK(contains(outcome.out, folder.place + ":3: mystery: no key of DeepSpeed, kept for the program"));
  const Outcome explain = folder.train({"--lr", "0.02", "--explain"});
  CHECK(contains(explain.out, "--lr 0.02 takes the place of 0.01 (" + folder.place + ":4)\n"));
  CHECK(explained(explain.out, "lr") == "0.02 flag --lr");
}

TEST_CASE("gptlite --config: what is wrong ends with 2 and the place, and nothing is written") {
  check_refused("\"zero_optimization\": {\n\"stage\": 5}", {},
                "ds.json:3: zero_optimization.stage: expected a stage from 0 to 3, got 5");
  check_refused("\"gradient_clipping\": -1", {},
                "ds.json:2: gradient_clipping: expected a number of at least 0");
  check_refused("\"zero_optimization\": {\"overlap_com\": true}", {}, "the nearest is 'overlap_comm'");
  check_refused("\"zero_optimization\": {\"offload_param\": {\"device\": \"cpu\"}}", {},
                "offload is not there yet");
  check_refused("\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 3", {},
                "train_batch_size 8: expected");
  check_refused("\n\"gradient_accumulation_steps\": 5", {"--batch-size", "12"}, "ds.json");
  check_refused("\"steps_per_print\": -2", {},
                "ds.json:2: steps_per_print: expected a whole number of at least 0");
  check_refused("\"optimizer\": {\"type\": \"Lion\"}", {},
                "ds.json:2: optimizer.type: expected Adam or AdamW, got 'Lion'");
  check_refused("\"optimizer\": {\"type\": \"Adam\", \"params\": {\n\"adam_w_mode\": false}}", {},
                "ds.json:3: optimizer.params.adam_w_mode: expected true");
  check_refused("\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"amsgrad\": true}}", {},
                "optimizer.params.amsgrad: expected false");
  check_refused("\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"rate\": 1}}", {},
                "ds.json:2: optimizer");
  check_refused("\"optimizer\": {\"type\": \"AdamW\", \"params\": {\n\"betas\": [0.9, 1.5]}}", {}, "ds.json");
  check_refused("\"scheduler\": {\"type\": \"Warmup\"}", {}, "ds.json:2: scheduler");
  check_refused("\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {}}", {"--warmup-steps", "2"},
                "--warmup-steps is of the cosine, and the run has another schedule (file ");
  const TemporaryFolder folder;
  const Outcome missing = gptlite(tiny(folder / "out", {"--config", folder / "none.json"}));
  CHECK(missing.status == 2);
  CHECK(contains(missing.err, "none.json"));
}

TEST_CASE("gptlite --config: a schedule of DeepSpeed, which a resumed run takes from its checkpoint") {
  ConfigFolder folder(R"("train_batch_size": 4,
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.01, "warmup_num_steps": 5}}
)");
  const Losses whole = folder.losses({"--steps", "6"});
  REQUIRE(whole.size() == 6);
  CHECK(folder.losses({"--steps", "6", "--batch-size", "4"}, false) != whole);
  CHECK(folder.losses({"--steps", "6", "--batch-size", "4", "--scheduler",
                       R"({"type": "WarmupLR", "params": {"warmup_max_lr": 0.01, "warmup_num_steps": 5}})"},
                      false) == whole);
  REQUIRE(gptlite(tiny(folder / "half", {"--steps", "3", "--config", folder.place})).status == 0);
  const auto resume = [&](Flags more) {
    more.insert(more.begin(), {"train", "--resume", folder / "half", "--out", folder / "rest", "--steps", "6",
                               "--eval-interval", "0", "--threads", "1", "--metrics", folder / "rest.jsonl"});
    return gptlite(more);
  };
  const Outcome rest = resume({});
  REQUIRE_MESSAGE(rest.status == 0, rest.err);
  CHECK(losses_of(folder / "rest.jsonl") == Losses(whole.begin() + 3, whole.end()));
}

TEST_CASE("gptlite --config beside --resume: the options that the run began with, or an error") {
  ConfigFolder folder(
      "\"train_batch_size\": 4,\n\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.01}}\n");
  const std::string out = folder / "first";
  REQUIRE(gptlite(tiny(out, {"--steps", "2", "--config", folder.place})).status == 0);
  const auto resume = [&] {
    return gptlite({"train", "--resume", "latest", "--out", out, "--steps", "3", "--eval-interval", "0",
                    "--threads", "1", "--config", folder.place});
  };
  const Outcome same = resume();
  CHECK_MESSAGE(same.status == 0, same.err);
  folder.write("ds.json", "{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.02}}}");
  const Outcome other = resume();
  CHECK(other.status == 3);
  CHECK_MESSAGE(contains(other.err, "this run began with lr 0.01, the options give 0.02"), other.err);
}

TEST_CASE("gptlite --config: lines of steps and tables are those that its keys ask for") {
  TemporaryFolder tables;
  ConfigFolder folder(
      "\"train_batch_size\": 4, \"steps_per_print\": 2, \"wall_clock_breakdown\": true,\n"
      "\"csv_monitor\": {\"enabled\": true, \"output_path\": \"" +
      tables / "csv" + "\", \"job_name\": \"small\"}\n");
  const Outcome outcome = folder.train({"--steps", "4"});
  REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
  for (const char* part : {"step=2,", "step=4,", "time (ms)"})
    CHECK_MESSAGE(contains(outcome.out, part), outcome.out);
  CHECK(contains(file_bytes(tables / "csv/small/metrics.csv"), "loss"));
}

TEST_CASE("gptlite --config: the documents' configuration of GPT-lite") {
  const fs::path document = fs::path(TESSERA_TEST_DATA_DIR) / "dist/train/deepspeed/documents/gptlite.json";
  const TemporaryFolder folder;
  const Outcome outcome =
      gptlite(tiny(folder / "out", {"--config", document.string(), "--virtual-ranks", "2", "--explain"}));
  REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
  CHECK(contains(explained(outcome.out, "batch_size"), "256 sequences file "));
  CHECK(contains(explained(outcome.out, "micro_batch_size"), "1 sequences file "));
  CHECK(contains(explained(outcome.out, "strategy"), "full_shard file "));
  CHECK(contains(explained(outcome.out, "dtype"), "fp16 file "));
  CHECK(contains(explained(outcome.out, "scheduler"), "WarmupLR"));
}
