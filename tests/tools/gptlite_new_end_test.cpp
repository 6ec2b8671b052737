// Runs that go on beyond their end, and runs that begin with the weights of another one.

#include <doctest/doctest.h>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/checkpoint_reader.h"
#include "tests/tools/gptlite_program.h"

using namespace tessera;

namespace {

dist::TrainingState state_of(const std::string& path) {
  return dist::CheckpointReader(dist::find_checkpoint(path)).state();
}

std::vector<double> loss_values(const std::string& metrics) {
  std::vector<double> values;
  for (const auto& [step, loss] : losses_of(metrics)) values.push_back(loss);
  return values;
}

/// The number after "validation loss " in the last line that has one.
std::string validation_loss(const std::string& out) {
  const std::string key = "validation loss ";
  const size_t at = out.rfind(key);
  REQUIRE(at != std::string::npos);
  return out.substr(at + key.size(), 6);
}

}  // namespace

TEST_CASE("gptlite train: a finished run goes on with more steps, and says what became of the schedule") {
  const TemporaryFolder folder;
  const std::string out = folder / "out", first = folder / "first.jsonl", then = folder / "then.jsonl";
  REQUIRE(gptlite(tiny_training(out, {"--steps", "6", "--dropout", "0.1", "--metrics", first})).status == 0);
  const Outcome extended =
      gptlite({"train", "--out", out, "--resume", "latest", "--steps", "9", "--metrics", then});
  REQUIRE_MESSAGE(extended.status == 0, extended.err);
  CHECK_MESSAGE(contains(extended.out, "max_steps was 6 and is 9; the schedule cosine was stretched"),
                extended.out);
  const auto losses = losses_of(then);
  REQUIRE(losses.size() == 3);
  CHECK(losses.front().first == 7);
  CHECK(state_of(out).step == 9);
  CHECK(state_of(out).run.at("steps") == "9");
}

TEST_CASE("gptlite train --init-from: the weights and the characters of another run, all else new") {
  const TemporaryFolder folder;
  const std::string base = folder / "base", out = folder / "out", metrics = folder / "metrics.jsonl";
  REQUIRE(gptlite(tiny_training(base, {"--steps", "30", "--lr", "0.01", "--quiet"})).status == 0);
  const std::string before = validation_loss(gptlite({"eval", "--checkpoint", base}).out);
  const Outcome tuned = gptlite({"train", "--init-from", base, "--out", out, "--dataset", "builtin",
                                 "--steps", "2", "--batch-size", "4", "--lr", "0", "--min-lr", "0",
                                 "--eval-interval", "1", "--metrics", metrics});
  REQUIRE_MESSAGE(tuned.status == 0, tuned.err);
  CHECK_MESSAGE(contains(tuned.out, "first weights from " + base), tuned.out);
  CHECK(validation_loss(tuned.out) == before);  // a rate of 0 keeps the weights
  CHECK(loss_values(metrics).size() == 2);
  CHECK(state_of(out).step == 2);
  CHECK(state_of(out).model == state_of(base).model);
}

TEST_CASE("gptlite train --init-from: what does not fit is refused") {
  const TemporaryFolder folder;
  const std::string base = folder / "base", out = folder / "out";
  REQUIRE(gptlite(tiny_training(base, {"--steps", "4", "--quiet"})).status == 0);
  const auto refused = [&](std::vector<std::string> flags, int status, const std::string& text) {
    flags.insert(flags.begin(), {"train", "--init-from", base, "--out", out, "--steps", "2"});
    const Outcome outcome = gptlite(flags);
    CHECK(outcome.status == status);
    CHECK_MESSAGE(contains(outcome.err, text), outcome.err);
    CHECK(!std::filesystem::exists(out + "/latest"));
  };
  refused({"--resume", base}, 2, "--resume and --init-from");
  refused({"--dataset", "builtin", "--n-layer", "3"}, 2,
          "--n-layer 3: with --init-from the model is that of");
  write_bytes(folder / "other.txt", std::string(2000, '#') + "\u00e9");
  refused({"--dataset", "text", "--data", folder / "other.txt"}, 3, "the vocabulary is that of");
}

TEST_CASE(
    "gptlite train: a run with the weights of another one is resumed, on a text with fewer characters") {
  const TemporaryFolder folder;
  const std::string base = folder / "base", out = folder / "out", metrics = folder / "metrics.jsonl";
  REQUIRE(gptlite(tiny_training(base, {"--steps", "4", "--quiet"})).status == 0);
  std::string few;
  for (int i = 0; i < 400; ++i) few += "the end ";
  write_bytes(folder / "few.txt", few);
  const Outcome tuned =
      gptlite({"train", "--init-from", base, "--out", out, "--dataset", "text", "--data", folder / "few.txt",
               "--steps", "4", "--batch-size", "4", "--eval-interval", "0"});
  REQUIRE_MESSAGE(tuned.status == 0, tuned.err);
  for (const char* steps : {"5", "6"}) {  // a resumed one may be resumed again
    const Outcome resumed = gptlite({"train", "--resume", out, "--steps", steps, "--metrics", metrics});
    REQUIRE_MESSAGE(resumed.status == 0, resumed.err);
  }
  CHECK(state_of(out).step == 6);
  CHECK(losses_of(metrics).size() == 2);
}

TEST_CASE("gptlite train: a resumed run has at least the steps that are done, whatever its warm-up") {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  REQUIRE(gptlite(tiny_training(out, {"--steps", "6", "--warmup-steps", "6", "--quiet"})).status == 0);
  const Outcome fewer = gptlite({"train", "--resume", out, "--steps", "4"});
  CHECK(fewer.status == 2);
  CHECK_MESSAGE(contains(fewer.err, "--steps 4: expected at least 6"), fewer.err);
}
