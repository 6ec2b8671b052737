#include <doctest/doctest.h>

#include <sstream>

#include "dist/train/engine/initialize.h"
#include "dist/train/profile/step_log.h"
#include "nn/layer.h"
#include "nn/layers/linear.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/temporary_folder.h"

// What the library itself reports: to the logger that a program passes, and from rank 0 alone.

using namespace tessera;

namespace {

struct Net : nn::Layer<Net> {
  nn::Linear& out = add<nn::Linear>("out", {.in = 2, .out = 3});
  Variable forward(const Variable& x) { return out(x); }
};

/// What a run on two ranks reports under these rules, with FOLDER in place of its folder.
std::string reported(const std::string& rules) {
  const TemporaryFolder folder;
  std::ostringstream out;
  const training::Logger log(training::stream_sink(out), training::LogFilter::parse(rules));
  test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
    Net net;
    auto training = training::initialize(
        net, {.config = training::JsonText{"{\"train_batch_size\": 2, \"my_model\": 3,\n\"optimizer\": "
                                           "{\"type\": \"Adam\"}}"},
              .world = &world,
              .log = log});
    training.engine.save_checkpoint(folder.path());
    training.engine.load_checkpoint(folder.path());
    return {};
  });
  double now = 0;
  training::StepLog steps({.steps_per_print = 1, .clock = [&now] { return now += 0.5; }, .log = log});
  steps.end_step(4);
  std::string text = out.str();
  for (size_t at = text.find(folder.path()); at != text.npos; at = text.find(folder.path()))
    text.replace(at, folder.path().size(), "FOLDER");
  return text.substr(0, text.find(", AvgMem"));
}

const std::string
    config =
        "[warning] train.config: the configuration:1: my_model: no key of DeepSpeed, kept for the "
        "program\n",
    checkpoints =
        "[info] dist.checkpoint: step 0 is saved: FOLDER/step-00000000\n"
        "[info] dist.checkpoint: step 0 is loaded: FOLDER\n",
    step = "[info] train.step: step=1, AvgSamplesPerSec=8.00";

}  // namespace

TEST_CASE("log: the library reports once, and a silenced component leaves the others") {
  CHECK(reported("") == config + checkpoints + step);
  CHECK(reported("-dist.checkpoint") == config + step);
  CHECK(reported("-train.config,-train.step") == checkpoints);
  CHECK(reported("-all,+dist") == checkpoints);
}
