#include <doctest/doctest.h>

#include "tests/tools/gptlite_program.h"

namespace {

namespace fs = std::filesystem;

/// Checks a call that must be refused: its status, one line, and the texts that the line must contain.
void check_refused(const Outcome& outcome, int status, const std::vector<std::string>& texts) {
  CAPTURE(outcome.err);
  CHECK(outcome.status == status);
  CHECK(is_one_error_line(outcome.err));
  for (const std::string& text : texts)
    CHECK_MESSAGE(contains(outcome.err, text), "expected the text ", text);
}

/// A training run that must be refused before anything is written.
void check_train_refused(int status, std::vector<std::string> flags, const std::vector<std::string>& texts) {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  check_refused(gptlite(tiny_training(out, std::move(flags))), status, texts);
  CHECK(!fs::exists(out));
}

/// A folder with a finished run of four steps.
struct TrainedFolder : TemporaryFolder {
  std::string out = *this / "out";
  explicit TrainedFolder(std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--steps", "4", "--checkpoint-interval", "2", "--quiet"});
    const Outcome outcome = gptlite(tiny_training(out, more));
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
  }
};

/// Calls that must be refused and leave the run's folder as it was.
void check_untouched(const TrainedFolder& run, std::vector<std::string> arguments, int status,
                     const std::vector<std::string>& texts) {
  const auto before = snapshot(run.out);
  check_refused(gptlite(std::move(arguments)), status, texts);
  CHECK(snapshot(run.out) == before);
}

std::vector<std::string> resume(const std::string& out, std::vector<std::string> more = {}) {
  std::vector<std::string> all{"train", "--out", out, "--resume", "latest"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("gptlite: flags that are unknown or misspelt end with 2 and the nearest one") {
  check_train_refused(2, {"--bathc-size", "3"}, {"'--bathc-size'", "did you mean '--batch-size'?"});
  check_train_refused(2, {"--frobnicate"}, {"unknown flag '--frobnicate'"});
  check_refused(gptlite({"trian"}), 2, {"did you mean 'train'?"});
  check_refused(gptlite({}), 2, {"subcommand is required"});
}

TEST_CASE("gptlite train: values out of range or of another type end with 2, naming the flag and the range") {
  check_train_refused(2, {"--steps", "0"}, {"--steps: expected a whole number from 1 to 99999999, got 0"});
  check_train_refused(2, {"--steps", "many"}, {"--steps"});
  check_train_refused(2, {"--steps", "99999999999999999999"}, {"--steps"});
  check_train_refused(2, {"--seed", "-1"}, {"--seed"});
  check_train_refused(2, {"--batch-size", "-4"}, {"--batch-size: expected a whole number from 1", "got -4"});
  check_train_refused(2, {"--dropout", "1"},
                      {"--dropout: expected a number of at least 0 and below 1, got 1"});
  check_train_refused(2, {"--lr", "nan"}, {"--lr: expected a number of at least 0, got 'nan'"});
  check_train_refused(2, {"--lr", "inf"}, {"--lr: expected a number of at least 0, got 'inf'"});
  check_train_refused(2, {"--beta2", "1.5"}, {"--beta2: expected", "below 1, got 1.5"});
  check_train_refused(2, {"--eval-interval", "-1"},
                      {"--eval-interval: expected a whole number of at least 0, got -1"});
  check_train_refused(2, {"--keep", "0"}, {"--keep: expected a whole number of at least 1, got 0"});
  check_train_refused(2, {"--bias", "maybe"}, {"--bias", "maybe"});
  check_train_refused(2, {"--threads", "-2"}, {"--threads: expected a whole number from 0 to 4096, got -2"});
  check_train_refused(2, {"--threads", "4097"}, {"--threads: expected a whole number from 0 to 4096"});
  check_train_refused(2, {"--activation-checkpoint-interval", "-1"},
                      {"--activation-checkpoint-interval: expected a whole number of at least 0, got -1"});
  check_train_refused(2, {"--activation-checkpoint-keep", "all"}, {"--activation-checkpoint-keep", "all"});
  check_train_refused(2, {"--preset", "nanocpu"},
                      {"'nanocpu'", "tiny, nano-cpu, nano, width-768, gpt-lite or gpt2"});
}

TEST_CASE("gptlite train: contradictory flags end with 2, naming both") {
  const TemporaryFolder folder;
  check_refused(gptlite({"train", "--dataset", "builtin", "--n-head", "3", "--out", folder / "out"}), 2,
                {"--n-head 3 does not divide --n-embd 128"});
  check_train_refused(2, {"--micro-batch-size", "3"},
                      {"--micro-batch-size 3 does not divide --batch-size 4"});
  check_train_refused(2, {"--min-lr", "0.5", "--lr", "0.1"}, {"--min-lr 0.5: expected 0 to 0.1"});
  check_train_refused(2, {"--data", "play.txt"}, {"'builtin' takes no `--data`"});
  check_refused(gptlite({"train", "--dataset", "text", "--out", folder / "out"}), 2, {"needs `--data FILE`"});
  check_refused(gptlite({"train", "--dataset", "moliere", "--out", folder / "out"}), 2,
                {"'moliere': expected tiny-shakespeare, builtin, text or tokens"});
  CHECK(!fs::exists(folder / "out"));
}

TEST_CASE("gptlite train: ranks that do not fit the batch, the groups or the strategy end with 2") {
  check_train_refused(2, {"--virtual-ranks", "3"},
                      {"--batch-size 4: expected a multiple of the number of ranks, 3"});
  check_train_refused(2, {"--virtual-ranks", "-1"},
                      {"--virtual-ranks: expected a whole number from 0 to 1024, got -1"});
  check_train_refused(2, {"--virtual-ranks", "2", "--micro-batch-size", "4"},
                      {"--micro-batch-size 4: expected 1 to 2"});
  check_train_refused(2, {"--virtual-ranks", "2", "--batch-size", "12", "--micro-batch-size", "4"},
                      {"--micro-batch-size 4 does not divide a rank's share of --batch-size 12, 6"});
  check_train_refused(2, {"--strategy", "zero3"}, {"--strategy", "'zero3'", "full_shard"});
  check_train_refused(2, {"--virtual-ranks", "4", "--strategy", "hybrid_shard"},
                      {"needs `--shard-group-size N`"});
  check_train_refused(2, {"--virtual-ranks", "4", "--strategy", "hybrid_shard", "--shard-group-size", "3"},
                      {"--shard-group-size 3: expected a divisor of the number of ranks, 4"});
  check_train_refused(2,
                      {"--virtual-ranks", "4", "--pipeline-stages", "2", "--strategy", "hybrid_shard",
                       "--shard-group-size", "4"},
                      {"--shard-group-size 4: expected a divisor of the 2 ranks that hold a stage"});
  check_train_refused(2,
                      {"--virtual-ranks", "4", "--strategy", "hybrid_shard_zero2", "--shard-group-size", "0"},
                      {"needs `--shard-group-size N`"});
  check_train_refused(2, {"--virtual-ranks", "4", "--strategy", "full_shard", "--shard-group-size", "2"},
                      {"--shard-group-size 2 with --strategy full_shard"});
  for (const char* policy :
       {"blocks", "size", "size:", "size:0", "size:-3", "size:1e6", "size:99999999999999999999"})
    check_train_refused(2, {"--virtual-ranks", "2", "--auto-wrap", policy},
                        {"--auto-wrap '" + std::string(policy) + "'", "size:N"});
  check_train_refused(2, {"--virtual-ranks", "2", "--backward-prefetch", "now"},
                      {"--backward-prefetch: expected pre, post or none, got 'now'"});
  check_train_refused(2, {"--virtual-ranks", "2", "--bucket-bytes", "0"},
                      {"--bucket-bytes: expected a whole number of at least 1, got 0"});
  check_train_refused(2, {"--virtual-ranks", "2", "--timeout", "0"},
                      {"--timeout: expected a number from 0.001 to 1000000, got 0"});
  check_train_refused(2, {"--virtual-ranks", "2", "--timeout", "nan"},
                      {"--timeout: expected a number from 0.001 to 1000000, got 'nan'"});
  check_train_refused(2, {"--async-save"}, {"--async-save", "one rank and no `--strategy`"});
  check_train_refused(2, {"--auto-wrap", "none"}, {"--auto-wrap", "one rank and no `--strategy`"});
  check_train_refused(2, {"--virtual-ranks", "2", "--parity-export", "export"},
                      {"--parity-export", "one rank"});
}

TEST_CASE(
    "gptlite train: a profile of steps that the run does not take, or that cannot be written, ends with 2") {
  const TemporaryFolder folder;
  const std::string trace = folder / "trace.json";
  const auto refused = [&](const std::string& steps, const std::vector<std::string>& texts) {
    check_train_refused(2, {"--steps", "8", "--profile", trace, "--profile-steps", steps}, texts);
    CHECK(!fs::exists(trace));
  };
  for (const char* form : {"5", "1:", ":3", "1:2:3", "a:b", "1-3", " 1:3", "1:99999999999999999999"})
    refused(form, {"--profile-steps '" + std::string(form) + "'", "expected A:B"});
  refused("4:3", {"--profile-steps 4:3", "the first step is after the last"});
  refused("0:3", {"--profile-steps 0:3", "this run takes steps 1 to 8"});
  refused("3:9", {"--profile-steps 3:9", "this run takes steps 1 to 8"});
  check_train_refused(2, {"--profile-steps", "1:2"}, {"--profile-steps needs `--profile FILE`"});
  check_train_refused(2, {"--profile", folder / "no/such/trace.json"}, {"trace", "no/such/trace.json"});
}

TEST_CASE("gptlite: devices and types that this build does not support end with 2") {
  check_train_refused(2, {"--dtype", "fp64"}, {"--dtype fp64: expected fp32, bf16 or fp16"});
  check_train_refused(2, {"--dtype", "int3"}, {"--dtype int3: expected fp32, bf16 or fp16"});
  check_train_refused(2, {"--device", "tpu"}, {"--device", "'tpu'", "cpu"});
  check_train_refused(2, {"--device", "meta"}, {"--device meta"});
}

TEST_CASE("gptlite train: data that is missing, empty, too short, not UTF-8 or of another hash ends with 3") {
  const TemporaryFolder folder;
  const auto train_on = [&](const std::string& name, std::string_view bytes, const std::string& dataset) {
    if (!bytes.empty() || name == "empty.txt") write_bytes(folder / name, bytes);
    return gptlite({"train", "--dataset", dataset, "--data", folder / name, "--out", folder / "out"});
  };
  check_refused(train_on("missing.txt", "", "text"), 3, {"missing.txt"});
  check_refused(train_on("empty.txt", "", "text"), 3, {"empty.txt", "empty"});
  check_refused(train_on("short.txt", "To be, or not to be", "text"), 3, {"short.txt", "17"});
  check_refused(train_on("latin1.txt", "d\xe9j\xe0 vu, d\xe9j\xe0 lu", "text"), 3, {"latin1.txt", "UTF-8"});
  check_refused(train_on("other.txt", "First Citizen:\n", "tiny-shakespeare"), 3, {"other.txt", "1115394"});
  check_refused(train_on("tokens", "", "tokens"), 3, {"train.bin"});
  CHECK(!fs::exists(folder / "out"));
}

TEST_CASE("gptlite train: resuming without a checkpoint ends with 3 and names what is missing") {
  const TemporaryFolder folder;
  check_refused(gptlite(resume(folder / "out")), 3, {"--resume latest", folder / "out/latest"});
  check_refused(gptlite({"train", "--resume", folder / "gone"}), 3, {folder / "gone"});
  fs::create_directory(folder / "bare");
  check_refused(gptlite({"train", "--resume", folder / "bare"}), 3, {folder / "bare", "latest"});
  CHECK(!fs::exists(folder / "out"));
}

TEST_CASE("gptlite train: a run resumes only with the model, the configuration and the text it began with") {
  const TrainedFolder run;
  const auto refused = [&](std::vector<std::string> flags, const std::vector<std::string>& texts) {
    check_untouched(run, resume(run.out, std::move(flags)), 3, texts);
  };
  refused({"--n-layer", "2"}, {"began with n_layer 1, the options give 2"});
  refused({"--preset", "nano"}, {"step-00000004", "n_layer 1", "6"});
  refused({"--lr", "0.5"}, {"began with lr 0.001", "0.5"});
  check_untouched(run, resume(run.out, {"--steps", "3"}), 2, {"--steps 3: expected at least 4", "has done"});
  refused({"--seed", "7"}, {"began with seed 1337", "7"});
  write_bytes(run / "other.txt", std::string(2000, 'a') + "bcdefg");
  refused({"--dataset", "text", "--data", run / "other.txt"}, {"dataset builtin", "text"});
}

TEST_CASE("gptlite train: a run does not resume with a text of another vocabulary or length") {
  const TemporaryFolder folder;
  const auto write_text = [&](const char* letters, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += letters;
    write_bytes(folder / "text.txt", text);
  };
  write_text("hello world\n", 50);
  REQUIRE(gptlite({"train",
                   "--dataset",
                   "text",
                   "--data",
                   folder / "text.txt",
                   "--n-layer",
                   "1",
                   "--n-embd",
                   "32",
                   "--n-head",
                   "2",
                   "--block-size",
                   "16",
                   "--steps",
                   "2",
                   "--warmup-steps",
                   "1",
                   "--eval-interval",
                   "0",
                   "--quiet",
                   "--out",
                   folder / "out"})
              .status == 0);
  write_text("hello weird\n", 50);
  check_refused(gptlite(resume(folder / "out")), 3, {"vocabulary", "text.txt"});
  write_text("hello world\n", 60);
  check_refused(gptlite(resume(folder / "out")), 3, {"540 tokens", "648"});
}

TEST_CASE("gptlite train: a folder with a run's checkpoints is refused for a new run") {
  const TrainedFolder run;
  check_untouched(run, tiny_training(run.out, {"--steps", "4"}), 2,
                  {"--out " + run.out, "step-00000004", "--resume latest"});
}

TEST_CASE("gptlite train: a folder that cannot be written is refused before training") {
  const TemporaryFolder folder;
  write_bytes(folder / "file", "not a folder");
  const std::string out = folder / "file" + "/out";
  check_refused(gptlite(tiny_training(out, {"--steps", "4"})), 3, {out});
  CHECK(file_bytes(folder / "file") == "not a folder");
  check_refused(
      gptlite(tiny_training(folder / "out", {"--steps", "4", "--metrics", folder / "no/such/file"})), 2,
      {"--metrics", "no/such/file"});
}

TEST_CASE("gptlite: a damaged checkpoint is refused by sample, eval and resume alike") {
  const TrainedFolder run;
  const std::string model = run.out + "/step-00000004/model.safetensors";
  const std::string bytes = file_bytes(model);
  const auto refused_by_all = [&](const std::vector<std::string>& texts) {
    check_untouched(run, resume(run.out), 3, texts);
    check_untouched(run, {"sample", "--checkpoint", run.out, "--length", "3"}, 3, texts);
    check_untouched(run, {"eval", "--checkpoint", run.out}, 3, texts);
  };
  write_bytes(model, bytes.substr(0, bytes.size() / 2));
  refused_by_all({"model.safetensors"});
  std::string changed = bytes;
  changed[changed.size() - 5] = static_cast<char>(changed[changed.size() - 5] ^ 0x40);
  write_bytes(model, changed);
  refused_by_all({"model.safetensors"});
  write_bytes(model, bytes + "more");
  refused_by_all({"model.safetensors"});
  fs::remove(model);
  refused_by_all({"model.safetensors"});
  write_bytes(model, bytes);
  write_bytes(run.out + "/step-00000004/meta.json", "{}");
  refused_by_all({"meta.json"});
}

TEST_CASE("gptlite sample: bad prompts, options and checkpoints end with 2 or 3") {
  const TrainedFolder run;
  const auto sample = [&](std::vector<std::string> more, int status, const std::vector<std::string>& texts) {
    more.insert(more.begin(), {"sample", "--checkpoint", run.out});
    check_untouched(run, more, status, texts);
  };
  sample({"--prompt", "Enter \xc3\xa9mile"}, 2, {"--prompt", "\xc3\xa9"});
  sample({"--prompt", ""}, 2, {"--prompt is empty"});
  sample({"--prompt", "\xff"}, 2, {"--prompt", "UTF-8"});
  sample({"--temperature", "-1"}, 2, {"--temperature: expected a number of at least 0, got -1"});
  sample({"--top-k", "1000"}, 2, {"top_k 1000: expected 0 to"});
  sample({"--length", "-1"}, 2, {"--length: expected a whole number of at least 0, got -1"});
  check_refused(gptlite({"sample", "--checkpoint", run / "gone"}), 3, {run / "gone"});
}

TEST_CASE("gptlite train: a loss that is not finite ends with 4, keeping the last good checkpoint") {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  const Outcome outcome = gptlite(tiny_training(
      out, {"--steps", "50", "--lr", "1e30", "--warmup-steps", "0", "--checkpoint-interval", "1"}));
  check_refused(outcome, 4, {"step "});
  CHECK(gptlite({"eval", "--checkpoint", out}).status != 3);  // it can be read
  CHECK(fs::exists(out + "/latest"));
}
