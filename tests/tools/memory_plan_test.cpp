#include "tools/gptlite/plan.h"

#include <doctest/doctest.h>
#include <json/json.h>

#include <sstream>

#include "tests/tools/gptlite_program.h"

namespace models = tessera::models;
using tessera::MemoryCategory;
using tessera::gptlite::Run;
using tessera::training::PeakMemory;

namespace {

int64_t bytes(const PeakMemory& memory, MemoryCategory category) {
  return memory.by_category[static_cast<int>(category)];
}

Run run_of(const models::GptOptions& model, int64_t batch, int64_t micro_batch) {
  Run run;
  run.preset.model = model;
  run.preset.batch_size = batch;
  run.micro_batch_size = micro_batch;
  return run;
}

/// The last line of a metrics file.
Json::Value end_of(const std::string& metrics) {
  std::ifstream file(metrics);
  Json::Value last;
  for (std::string line; std::getline(file, line);) {
    std::istringstream text(line);
    std::string errors;
    REQUIRE(Json::parseFromStream(Json::CharReaderBuilder(), text, &last, &errors));
  }
  REQUIRE(last["event"] == "end");
  return last;
}

}  // namespace

TEST_CASE("memory plan: the peak of real steps, to 2 %, with dropout, micro-batches and mixed precision") {
  const TemporaryFolder folder;
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"--dropout", "0.2"},
      {"--micro-batch-size", "2"},
      {"--dropout", "0.1", "--micro-batch-size", "4", "--bias", "true", "--tie-weights", "false"},
      {"--grad-clip", "0", "--n-layer", "1"},
      {"--dtype", "bf16"},
      {"--activation-checkpoint-interval", "1"},
      {"--activation-checkpoint-interval", "2", "--activation-checkpoint-keep", "none", "--dropout", "0.1"},
      {"--dtype", "bf16", "--dropout", "0.1", "--micro-batch-size", "2"}};
  for (size_t i = 0; i < variants.size(); ++i) {
    const std::string out = folder / ("out" + std::to_string(i)), metrics = out + ".jsonl";
    std::vector<std::string> flags = {"--n-embd",     "64", "--block-size", "64", "--n-head",  "4",
                                      "--batch-size", "8",  "--steps",      "3",  "--metrics", metrics};
    if (i != 4) flags.insert(flags.end(), {"--n-layer", "3"});
    flags.insert(flags.end(), variants[i].begin(), variants[i].end());
    const Outcome outcome = ::gptlite(tiny_training(out, flags));
    REQUIRE_MESSAGE(outcome.status == 0, outcome.err);
    const Json::Value end = end_of(metrics);
    const double measured = end["memory_peak"].asDouble(), planned = end["memory_planned"].asDouble();
    CAPTURE(i);
    CAPTURE(outcome.out);
    CHECK(measured > 0);
    CHECK(std::abs(planned - measured) <= 0.02 * measured);
    for (const char* category : {"parameter", "optimizer_state"})
      CHECK(end["memory_planned_at_peak"][category].asDouble() ==
            doctest::Approx(end["memory_at_peak"][category].asDouble()).epsilon(0.001));
    CHECK_MESSAGE(contains(outcome.out, "memory at its peak"), outcome.out);
  }
}

TEST_CASE("memory plan: parameters and AdamW's state by the formula") {
  const models::GptOptions model = models::nano_cpu(65);
  const int64_t P = models::parameter_count(model);
  const PeakMemory peak = tessera::gptlite::plan_memory(run_of(model, 12, 12)).peak;
  CHECK(bytes(peak, MemoryCategory::parameter) == 4 * P);
  // Two means of 4 bytes each, every tensor padded to 64 bytes; a step count of 8 bytes per tensor.
  CHECK(bytes(peak, MemoryCategory::optimizer_state) >= 8 * P);
  CHECK(bytes(peak, MemoryCategory::optimizer_state) <= 8 * P + 64 * 2 * 32 + 8 * 32);
  int64_t sum = 0;
  for (const int64_t category : peak.by_category) sum += category;
  CHECK(peak.total == sum);
}

TEST_CASE("memory plan: activations grow with the block size, not with its square") {
  int64_t before = 0;
  for (const int64_t block : {512, 1024, 2048, 4096}) {
    models::GptOptions model = models::gpt_lite(65);
    model.block_size = block;
    const int64_t kept = tessera::gptlite::plan_memory(run_of(model, 1, 1)).kept_by_forward;
    if (before > 0) CHECK(static_cast<double>(kept) == doctest::Approx(2.0 * before).epsilon(0.01));
    before = kept;
  }
}
