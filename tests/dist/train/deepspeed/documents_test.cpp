#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "dist/train/config/training_fields.h"
#include "dist/train/deepspeed/configuration.h"
#include "dist/train/engine/initialize.h"
#include "nn/functional.h"
#include "nn/layer.h"
#include "nn/layers/linear.h"
#include "optim/rules/adam.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

// The configurations in documents/, which are printed in documents of DeepSpeed's users, train a classifier.
// What is refused until the library has it is taken out, one key at a time, and each refusal is checked.

using namespace tessera;
using training::TrainingConfig;

namespace {

/// A file of documents/.
std::string document(const std::string& name) {
  const std::string json = file_bytes(TESSERA_TEST_DATA_DIR "/dist/train/deepspeed/documents/" + name);
  REQUIRE_MESSAGE(!json.empty(), name);
  return json;
}

struct Classifier : nn::Layer<Classifier> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 2, .out = 32});
  nn::Linear& second = add<nn::Linear>("second", {.in = 32, .out = 3});
  Variable forward(const Variable& x) { return second(nn::relu(first(x))); }
};

/// Points in three classes by their angle, which a network of one layer learns.
struct Angles : data::Dataset {
  int64_t size() const override { return 4096; }
  data::Example get(int64_t i) const override {
    const auto angle = static_cast<float>(i % 3) * 2.1f + 0.5f * rand({}).data<float>()[0];
    return {Tensor::from({std::cos(angle), std::sin(angle)}), Tensor::scalar(i % 3)};
  }
};

/// The losses of `steps` steps, each the mean over its micro-batches and ranks.
std::vector<double> losses_of(const std::string& json, int ranks, int64_t steps,
                              const TrainingConfig& defaults = {}) {
  std::vector<double> losses;
  test::require_no_problems(ranks, [&](dist::World& world) -> std::vector<std::string> {
    Classifier net;
    auto [engine, optimizer, loader, schedule] =
        training::initialize(net, {.config = training::JsonText{json},
                                   .defaults = defaults,
                                   .training_data = std::make_shared<Angles>(),
                                   .world = &world});
    double sum = 0;
    while (engine.global_steps() < steps)
      for (auto& [x, y] : *loader) {
        if (engine.global_steps() == steps) break;
        const Variable loss = nn::cross_entropy(engine(x), y);
        engine.backward(loss);
        sum += loss.value().item() / static_cast<double>(engine.gradient_accumulation_steps());
        const bool is_last = engine.is_gradient_accumulation_boundary();
        engine.step();
        if (!is_last) continue;
        Tensor mean = ops::full({}, sum, f64);
        world.communicator().all_reduce(mean, dist::Reduction::avg).wait();
        if (world.rank() == 0) losses.push_back(mean.item());
        sum = 0;
      }
    return {};
  });
  return losses;
}

double mean_of(const std::vector<double>& losses, size_t first, size_t last) {
  double sum = 0;
  for (size_t i = first; i < last; ++i) sum += losses[i];
  return sum / static_cast<double>(last - first);
}

/// The mean of the last quarter is below that of the first.
void check_falls(const std::vector<double>& losses, double by = 0) {
  const size_t quarter = losses.size() / 4;
  const double before = mean_of(losses, 0, quarter),
               after = mean_of(losses, losses.size() - quarter, losses.size());
  CAPTURE(before);
  CAPTURE(after);
  CHECK(std::isfinite(after));
  CHECK(after < before - by);
}

/// The text with `by` in place of `part`, for which it is refused with `reason`.
std::string accepted(const std::string& json, const std::string& part, const std::string& by,
                     const std::string& reason, const TrainingConfig& defaults = {}, int ranks = 1) {
  const auto start = [&](dist::World& world) {
    Classifier net;
    training::InitializeOptions options{.config = training::JsonText{json}, .defaults = defaults};
    options.world = &world;
    training::initialize(net, options);
  };
  const std::string message = message_of<Error>([&] { dist::launch(start, {.virtual_ranks = ranks}); });
  CHECK_MESSAGE(contains(message, reason), message);
  const size_t at = json.find(part);
  REQUIRE_MESSAGE(at != json.npos, part);
  return std::string(json).replace(at, part.size(), by);
}

}  // namespace

TEST_CASE("documents: the configuration of GPT-lite trains on one and two ranks, with equal losses") {
  const std::string json = document("gptlite.json");  // 256 micro-batches of 1 in f16, stage 3
  const std::vector<double> one = losses_of(json, 1, 4), two = losses_of(json, 2, 4);
  check_falls(one);
  REQUIRE(two.size() == one.size());
  // The sums of 256 gradients in f16 are in another order.
  for (size_t i = 0; i < one.size(); ++i) CHECK(std::abs(two[i] - one[i]) < 1e-2);
}

TEST_CASE("documents: runs that differ by one key differ by one line of the resolved configuration") {
  const std::string json = document("gptlite.json");
  const auto lines_of = [&](const std::string& stage) {
    const std::string part = "\"stage\": 3";
    const auto configuration = training::deepspeed::read(
        training::JsonDocument::parse(std::string(json).replace(json.find(part), part.size(), stage),
                                      "ds.json"),
        training::Resolved<TrainingConfig>(training::training_fields()), 8);
    std::vector<std::string> lines;
    std::istringstream resolved(training::deepspeed::resolved_json(configuration));
    for (std::string line; std::getline(resolved, line);) lines.push_back(line);
    return lines;
  };
  const std::vector<std::string> base = lines_of("\"stage\": 3");
  for (const int stage : {0, 1, 2}) {
    const std::vector<std::string> other = lines_of(text("\"stage\": ", stage));
    REQUIRE(other.size() == base.size());
    std::string difference;
    for (size_t i = 0; i < base.size(); ++i)
      if (other[i] != base[i]) difference += other[i];
    CHECK(contains(difference, text("\"stage\" : ", stage)));
    CHECK(std::count(difference.begin(), difference.end(), ':') == 1);
  }
}

TEST_CASE("documents: the offload configuration trains once both offload keys are taken out") {
  std::string json = document("gptlite_offload.json");
  json = accepted(json, "\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true,},", "",
                  "zero_optimization.offload_optimizer.device: only \"none\"");
  json = accepted(json, "\"offload_param\": {\"device\": \"cpu\", \"pin_memory\": true,},", "",
                  "zero_optimization.offload_param.device: only \"none\"");
  check_falls(losses_of(json, 2, 4));
}

TEST_CASE("documents: the full configuration for four ranks and precision 16 trains 20 steps") {
  TrainingConfig defaults;
  defaults.micro_batch_size = 8;
  defaults.precision = training::PrecisionMode::f16;
  std::string json = document("imdb_stage_2_offload.json");
  json = accepted(json, "\"offload_optimizer\": {\"device\": \"cpu\"},", "",
                  "zero_optimization.offload_optimizer.device: only \"none\"", defaults, 4);
  json = accepted(json, "OneBitAdam", "Adam", "OneBitAdam", defaults, 4);
  json = accepted(json, "\"cuda_aware\": true,", "", "cuda_aware", defaults, 4);
  const std::vector<double> losses = losses_of(json, 4, 20, defaults);
  CHECK(losses.size() == 20);
  check_falls(losses);
}

TEST_CASE("documents: the configuration of \"auto\" values trains on one and two ranks") {
  const std::string offload = "\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}, ";
  for (const int ranks : {1, 2}) {
    CAPTURE(ranks);
    TrainingConfig defaults;
    defaults.micro_batch_size = 32 / ranks;
    defaults.gradient_clip = 1.0;
    defaults.precision = training::PrecisionMode::f16;
    const std::string json =
        accepted(document("stage_2_auto.json"), offload.substr(0, offload.size() - 1), "",
                 "zero_optimization.offload_optimizer.device: only \"none\"", defaults, ranks);
    check_falls(losses_of(json, ranks, 60, defaults));
  }
}

TEST_CASE("documents: the configuration of ZeRO++ trains once its three keys are taken out") {
  std::string json = document("zero_plus_plus.json");
  for (const char* part : {"\"zero_hpz_partition_size\": 8,", "\"zero_quantized_weights\": true,",
                           "\"zero_quantized_gradients\": true,"})
    json = accepted(json, part, "", "quantised communication (ZeRO++) is not there yet");
  check_falls(losses_of(json, 2, 40), 0.005);
}
