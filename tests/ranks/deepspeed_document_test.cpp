// A configuration of DeepSpeed's documents for four ranks, where ranks are processes.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "data/datasets/dataset.h"
#include "dist/launch/launch.h"
#include "dist/train/engine/initialize.h"
#include "nn/functional.h"
#include "nn/layer.h"
#include "nn/layers/linear.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;

namespace {

constexpr int64_t steps = 20;

struct Classifier : nn::Layer<Classifier> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 2, .out = 32});
  nn::Linear& second = add<nn::Linear>("second", {.in = 32, .out = 3});
  Variable forward(const Variable& x) { return second(nn::relu(first(x))); }
};

/// Points in three classes by their angle.
struct Angles : data::Dataset {
  int64_t size() const override { return 4096; }
  data::Example get(int64_t i) const override {
    const auto angle = static_cast<float>(i % 3) * 2.1f + 0.5f * rand({}).data<float>()[0];
    return {Tensor::from({std::cos(angle), std::sin(angle)}), Tensor::scalar(i % 3)};
  }
};

/// The file of documents/ without what the library does not have yet.
std::string document() {
  std::string json =
      file_bytes(TESSERA_TEST_DATA_DIR "/dist/train/deepspeed/documents/imdb_stage_2_offload.json");
  for (const auto& [part, by] :
       {std::pair<std::string, std::string>{"\"offload_optimizer\": {\"device\": \"cpu\"},", ""},
        {"OneBitAdam", "Adam"},
        {"\"cuda_aware\": true,", ""}}) {
    const size_t at = json.find(part);
    REQUIRE_MESSAGE(at != json.npos, part);
    json.replace(at, part.size(), by);
  }
  return json;
}

/// The losses of the steps, each the mean over the ranks.
std::vector<double> train(const std::string& json, dist::World& world) {
  training::TrainingConfig defaults;
  defaults.micro_batch_size = 8;
  defaults.precision = training::PrecisionMode::f16;
  Classifier net;
  auto [engine, optimizer, loader, schedule] =
      training::initialize(net, {.config = training::JsonText{json},
                                 .defaults = defaults,
                                 .training_data = std::make_shared<Angles>(),
                                 .world = &world});
  CHECK(engine.config().strategy == dist::Strategy::shard_grad_op);
  CHECK(engine.compute_dtype() == f16);
  std::vector<double> losses;
  for (auto& [x, y] : *loader) {
    if (engine.global_steps() == steps) break;
    const Variable loss = nn::cross_entropy(engine(x), y);
    engine.backward(loss);
    engine.step();
    Tensor mean = ops::full({}, loss.value().item(), f64);
    world.communicator().all_reduce(mean, dist::Reduction::avg).wait();
    losses.push_back(mean.item());
  }
  return losses;
}

double mean_of(const std::vector<double>& losses, size_t first, size_t last) {
  double sum = 0;
  for (size_t i = first; i < last; ++i) sum += losses[i];
  return sum / static_cast<double>(last - first);
}

}  // namespace

TEST_CASE("ranks as processes: the document's configuration of stage 2 trains 20 steps on four ranks") {
  const std::string json = document();
  dist::launch(
      [&](dist::World& world) {
        if (world.size() != 4) return;  // the document's number
        const std::vector<double> losses = train(json, world);
        REQUIRE(std::ssize(losses) == steps);
        for (const double loss : losses) CHECK(std::isfinite(loss));
        CHECK(mean_of(losses, 15, 20) < mean_of(losses, 0, 5));
      },
      {.timeout = std::chrono::seconds(60)});
}
