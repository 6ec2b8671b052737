#include <doctest/doctest.h>
#include <signal.h>

#include <cmath>
#include <thread>

#include "data/text/play_grammar.h"
#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/train/monitors/tensorboard.h"
#include "tensor/io/safetensors.h"
#include "tensor/ops/matmul.h"
#include "tests/tools/child_process.h"
#include "tests/tools/gptlite_program.h"

namespace {

namespace fs = std::filesystem;
using namespace tessera;

dist::TrainingState state_of(const std::string& path) {
  return dist::CheckpointReader(dist::find_checkpoint(path)).state();
}

/// Starts a long run, sends it a signal after some steps, and returns its exit status.
int stop_by(int signal, const std::string& out, const std::string& metrics) {
  ChildProcess child(
      "gptlite",
      tiny_training(out, {"--steps", "1000000", "--checkpoint-interval", "0", "--metrics", metrics}), {});
  while (child.is_running() && losses_of(metrics).size() < 3)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  child.send(signal);
  return child.wait();
}

}  // namespace

TEST_CASE(
    "gptlite train: Ctrl-C, SIGTERM and SIGUSR1 finish the step, save, and end with their exit status") {
  const TemporaryFolder folder;
  const std::pair<int, int> expected[] = {{SIGINT, 130}, {SIGTERM, 143}, {SIGUSR1, 0}};
  for (const auto& [signal, status] : expected) {
    const std::string out = folder / ("out" + std::to_string(signal)), metrics = out + ".jsonl";
    CHECK(stop_by(signal, out, metrics) == status);
    const auto losses = losses_of(metrics);
    REQUIRE(!losses.empty());
    CHECK(state_of(out).step == losses.back().first);  // no finished step is lost
  }
}

TEST_CASE("gptlite train: micro-batches give the losses of the whole batch") {
  const TemporaryFolder folder;
  const auto losses = [&](const std::string& micro) {
    const std::string metrics = folder / (micro + ".jsonl");
    REQUIRE(gptlite(tiny_training(folder / micro, {"--steps", "8", "--dropout", "0.2", "--micro-batch-size",
                                                   micro, "--metrics", metrics}))
                .status == 0);
    return losses_of(metrics);
  };
  const auto whole = losses("4"), split = losses("1");
  REQUIRE(whole.size() == 8);
  REQUIRE(split.size() == 8);
  // Sums in another order, in f32, over 8 steps. Without the same random numbers in dropout this would fail.
  for (size_t i = 0; i < whole.size(); ++i)
    CHECK(split[i].second == doctest::Approx(whole[i].second).epsilon(1e-5));
}

TEST_CASE("gptlite train: a bf16 run resumes with the same bits, and may resume in fp32 and back") {
  const TemporaryFolder folder;
  const auto train = [&](const std::string& name, const std::string& dtype, const std::string& resumed) {
    const std::string metrics = folder / (name + ".jsonl"), out = folder / name;
    std::vector<std::string> flags = {"--steps", "12", "--checkpoint-interval", "6", "--metrics", metrics};
    if (!dtype.empty()) flags.insert(flags.end(), {"--dtype", dtype});
    if (!resumed.empty()) flags.insert(flags.end(), {"--resume", folder / resumed + "/step-00000006"});
    const Outcome outcome = gptlite(tiny_training(out, flags));
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
    CHECK(state_of(out).run.at("dtype") == (dtype.empty() ? "bf16" : dtype));
    return losses_of(metrics);
  };
  const auto whole = train("whole", "bf16", ""), resumed = train("resumed", "", "whole");
  REQUIRE(whole.size() == 12);
  REQUIRE(resumed.size() == 6);
  for (size_t i = 0; i < 6; ++i) CHECK(resumed[i] == whole[i + 6]);
  const auto single = train("single", "fp32", ""), crossed = train("crossed", "fp32", "whole"),
             back = train("back", "bf16", "single");
  // Twelve steps round to bf16 some hundred times: differences of some thousandths in a loss near 3.
  for (size_t i = 0; i < 6; ++i) {
    CHECK(std::abs(crossed[i].second - single[i + 6].second) < 0.02);
    CHECK(std::abs(back[i].second - whole[i + 6].second) < 0.02);
  }
  CHECK(gptlite({"eval", "--checkpoint", folder / "whole"}).status == 0);
  CHECK(gptlite({"sample", "--checkpoint", folder / "whole", "--length", "5"}).status == 0);
}

TEST_CASE("gptlite train: a checkpoint keeps what multiplied, and a run that goes on otherwise says so") {
  const TemporaryFolder folder;
  const std::string note = "matrix products differ from those of the checkpoint";
  REQUIRE(gptlite(tiny_training(folder / "first", {"--steps", "4"})).status == 0);
  CHECK(state_of(folder / "first").run.at("trainer.products") == matmul_kernels());
  const auto resume = [&](const std::string& name) {
    return gptlite(tiny_training(folder / name, {"--steps", "6", "--resume", folder / "first"})).out;
  };
  CHECK(resume("same").find(note) == std::string::npos);
  set_matmul_backend(MatmulBackend::eigen);
  const std::string out = resume("other");
  set_matmul_backend(MatmulBackend::automatic);
  CHECK(out.find(note) != std::string::npos);
  CHECK(out.find("f32 Eigen") != std::string::npos);
}

TEST_CASE("gptlite train: a run in fp16 scales its loss, follows fp32 and resumes with the same bits") {
  const TemporaryFolder folder;
  const auto train = [&](const std::string& name, std::vector<std::string> flags) {
    const std::string metrics = folder / (name + ".jsonl");
    flags.insert(flags.end(), {"--steps", "12", "--checkpoint-interval", "6", "--metrics", metrics});
    const Outcome outcome = gptlite(tiny_training(folder / name, flags));
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
    return losses_of(metrics);
  };
  const auto half = train("half", {"--dtype", "fp16"}), single = train("single", {});
  const auto resumed = train("resumed", {"--resume", folder / "half/step-00000006"});
  const std::string lines = file_bytes(folder / "half.jsonl");
  CHECK_MESSAGE(contains(lines, "\"loss_scale\":65536.0"), lines);
  REQUIRE(half.size() == 12);
  REQUIRE(resumed.size() == 6);
  // The first scale is too large: steps are skipped until it fits.
  for (size_t i = 0; i < 12; ++i) CHECK(std::abs(half[i].second - single[i].second) < 0.1);
  for (size_t i = 0; i < 6; ++i) CHECK(resumed[i] == half[i + 6]);
  CHECK(gptlite({"eval", "--checkpoint", folder / "half"}).status == 0);
}

TEST_CASE("gptlite train --tensorboard: an event file with the run's options and its values") {
  const TemporaryFolder folder;
  const std::string events = folder / "events";
  const Outcome outcome = gptlite(tiny_training(folder / "out", {"--steps", "3", "--tensorboard", events}));
  if (!training::tensorboard_is_built()) {
    CHECK(outcome.status == 2);
    MESSAGE("skipped: this build writes no event files (protobuf was not found)");
    return;
  }
  REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
  std::string bytes;
  for (const auto& file : std::filesystem::directory_iterator(events))
    bytes += file_bytes(file.path().string());
  for (const char* name : {"loss", "learning_rate", "gradient_norm", "tokens_per_second", "n_layer"})
    CHECK_MESSAGE(contains(bytes, name), name);
}

TEST_CASE("gptlite train: the first loss is near ln(vocabulary), and a few hundred steps halve it") {
  const TemporaryFolder folder;
  const std::string out = folder / "out", metrics = folder / "metrics.jsonl";
  const Outcome outcome = gptlite(tiny_training(out, {"--steps", "400", "--lr", "0.01", "--batch-size", "16",
                                                      "--eval-interval", "400", "--metrics", metrics}));
  REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
  const auto losses = losses_of(metrics);
  const double vocabulary = std::stod(state_of(out).model.at("vocabulary"));
  CHECK(losses.front().second == doctest::Approx(std::log(vocabulary)).epsilon(0.02));
  CHECK(losses.back().second < losses.front().second / 2);
  const double validation = state_of(out).validation_loss.value();
  CHECK(validation > data::play_grammar().entropy());  // the lower bound of any model's loss
  CHECK(validation < losses.front().second / 2);
  const Outcome again = gptlite({"eval", "--checkpoint", out});
  CHECK(again.status == 0);
  char text[32];
  std::snprintf(text, sizeof text, "%.6f", validation);
  CHECK_MESSAGE(contains(again.out, text), again.out);
}

TEST_CASE("gptlite train: latest, best and the newest checkpoints are kept, the others are deleted") {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  REQUIRE(gptlite(tiny_training(out, {"--steps", "10", "--checkpoint-interval", "2", "--keep", "2",
                                      "--eval-interval", "2", "--eval-steps", "2"}))
              .status == 0);
  CHECK(dist::find_checkpoint(out) == out + "/step-00000010");
  const std::vector<int64_t> kept = dist::list_checkpoints(out);
  CHECK(std::find(kept.begin(), kept.end(), 8) != kept.end());
  const std::string best = dist::find_checkpoint(out + "/best");
  double lowest = state_of(best).validation_loss.value();
  for (const int64_t step : kept)
    CHECK(lowest <= state_of(out + "/" + dist::step_name(step)).validation_loss.value());
  CHECK(kept.size() <= 3);
}

TEST_CASE("gptlite train: on a full disk it ends with 3, and the older checkpoint stays complete") {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  std::vector<std::string> flags =
      tiny_training(out, {"--steps", "6", "--checkpoint-interval", "2", "--quiet"});
  REQUIRE(gptlite(flags).status == 0);
  fs::remove_all(out + "/step-00000006");
  dist::write_pointer(out, dist::latest_name, 4);
  const auto before = snapshot(out);

  flags.insert(flags.end(), {"--resume", "latest"});
  ChildProcess child("gptlite", flags, {.output = folder / "log", .largest_file = 20'000});
  CHECK(child.wait() == 3);
  CHECK_MESSAGE(is_one_error_line(file_bytes(folder / "log")), file_bytes(folder / "log"));
  CHECK(contains(file_bytes(folder / "log"), "step-00000006"));
  CHECK(snapshot(out) == before);
  CHECK(gptlite(flags).status == 0);  // with space, it resumes
}

TEST_CASE("gptlite train --keep-packed-weights: the same losses, and the plan counts the bytes") {
  struct Restore {
    MatmulBackend before = matmul_backend();
    ~Restore() { set_matmul_backend(before); }
  } restore;
  set_matmul_backend(MatmulBackend::packed);
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--steps", "3", "--micro-batch-size", "2", "--metrics", folder / name});
    const Outcome outcome = gptlite(tiny_training(folder / ("out-" + name), more));
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
    more.emplace_back("--explain");
    return std::pair(losses_of(folder / name), gptlite(tiny_training(folder / "plan", more)).out);
  };
  const auto [losses, plan] = run("without", {});
  const auto [kept_losses, kept_plan] = run("with", {"--keep-packed-weights"});
  CHECK(losses.size() == 3);
  CHECK(kept_losses == losses);
  const auto peak = [](const std::string& text) { return text.substr(text.find("bytes at the peak")); };
  CHECK(contains(peak(kept_plan), "other"));
  CHECK(peak(kept_plan) != peak(plan));
}

TEST_CASE("gptlite train --explain: every option with its source; nothing is written") {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  const Outcome outcome = gptlite(tiny_training(out, {"--lr", "0.01", "--explain"}));
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, "--n-layer"));
  CHECK(contains(outcome.out, "a tenth of --lr"));
  CHECK(contains(outcome.out, "preset nano-cpu"));
  CHECK(contains(outcome.out, "optimizer state"));
  CHECK(!fs::exists(out));
}

TEST_CASE("gptlite train --parity-export: the weights before the first step, and every batch") {
  const TemporaryFolder folder;
  REQUIRE(
      gptlite(tiny_training(folder / "out", {"--steps", "3", "--parity-export", folder / "export"})).status ==
      0);
  const io::SafetensorsFile batches(folder / "export/batches.safetensors");
  const Tensor x = batches.read("x"), y = batches.read("y");
  CHECK(x.shape() == Shape{3, 4, 16});
  CHECK(x.dtype() == i64);
  // Targets are the inputs shifted by one.
  CHECK(y.select(0, 2).select(0, 3).select(0, 0).item_i64() ==
        x.select(0, 2).select(0, 3).select(0, 1).item_i64());
  const io::SafetensorsFile model(folder / "export/model.safetensors");
  CHECK(model.metadata().at("format") == "pt");
  CHECK(model.entry("blocks.0.attn.c_attn.weight").shape == Shape{96, 32});
  const io::SafetensorsFile trained(folder / "out/step-00000003/model.safetensors");
  CHECK(trained.entries().size() == model.entries().size());
}
