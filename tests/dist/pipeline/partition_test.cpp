// How layers are cut into stages.

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "dist/pipeline/partition/partition.h"
#include "models/dnn.h"
#include "models/presets.h"
#include "nn/layers/activation.h"

using namespace tessera;
using dist::LayerCost;

namespace {

double largest(const std::vector<double>& costs, const std::vector<int64_t>& boundaries) {
  double most = 0;
  for (size_t s = 0; s + 1 < boundaries.size(); ++s) {
    double sum = 0;
    for (int64_t i = boundaries[s]; i < boundaries[s + 1]; ++i) sum += costs[static_cast<size_t>(i)];
    most = std::max(most, sum);
  }
  return most;
}

/// By trying all cuts.
double smallest_largest(const std::vector<double>& costs, int stages, size_t first = 0) {
  if (stages == 1) {
    double sum = 0;
    for (size_t i = first; i < costs.size(); ++i) sum += costs[i];
    return sum;
  }
  double best = 1e300, sum = 0;
  for (size_t end = first + 1; end + static_cast<size_t>(stages) - 1 <= costs.size(); ++end) {
    sum += costs[end - 1];
    best = std::min(best, std::max(sum, smallest_largest(costs, stages - 1, end)));
  }
  return best;
}

/// The model of the documents: GPT-lite, by default without the parameters of the embeddings.
nn::LayeredModel gpt_lite_layers(const models::Gpt& gpt, bool with_embeddings) {
  nn::LayeredModel layers{.layers = gpt.to_layers(), .loss = {}, .result = {}};
  if (!with_embeddings) layers.layers[0].modules.clear();
  return layers;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("partition: GPT-lite into 4 stages by parameters, as the documents print it") {
  const models::Gpt gpt(models::preset("gpt-lite", 65).model);
  nn::LayeredModel layers = gpt_lite_layers(gpt, false);
  layers.layers.push_back(nn::function_layer("swap", {}, [](const Variable& x) { return x; }));
  REQUIRE(layers.layers.size() == 16);
  const std::vector<LayerCost> costs = dist::layer_costs(layers);
  const std::vector<int64_t> cut = dist::partition_layers(layers.layers, costs, {}, 4);
  const int ranks[] = {0, 2, 4, 6};
  CHECK(dist::partition_text(costs, cut, ranks) ==
        "RANK=0 STAGE=0 LAYERS=4 [0, 4) STAGE_PARAMS=21256704 (21.257M)\n"
        "RANK=2 STAGE=1 LAYERS=3 [4, 7) STAGE_PARAMS=21256704 (21.257M)\n"
        "RANK=4 STAGE=2 LAYERS=3 [7, 10) STAGE_PARAMS=21256704 (21.257M)\n"
        "RANK=6 STAGE=3 LAYERS=6 [10, 16) STAGE_PARAMS=21308160 (21.308M)\n");
}

TEST_CASE("partition: with the embeddings' parameters, 15 layers") {
  const models::Gpt gpt(models::preset("gpt-lite", 65).model);
  const nn::LayeredModel layers = gpt_lite_layers(gpt, true);
  REQUIRE(layers.layers.size() == 15);
  const std::vector<LayerCost> costs = dist::layer_costs(layers);
  const std::vector<int64_t> cut = dist::partition_layers(layers.layers, costs, {}, 4);
  CHECK(cut == std::vector<int64_t>{0, 4, 7, 10, 15});
  int64_t first = 0;
  for (size_t i = 0; i < 4; ++i) first += costs[i].parameters;
  CHECK(first == 22'879'488);
}

TEST_CASE("partition: the smallest largest cost, against all cuts") {
  const std::vector<double> costs{3, 8, 2, 3, 3, 1, 3, 5};
  CHECK(largest(costs, dist::balanced_boundaries({.fixed = costs}, 4)) == 9);
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> some(1 + random() % 11);
    for (double& cost : some) cost = static_cast<double>(random() % 7) * 0.1;
    for (int stages = 1; stages <= std::min<int>(5, static_cast<int>(some.size())); ++stages) {
      const std::vector<int64_t> cut = dist::balanced_boundaries({.fixed = some}, stages);
      REQUIRE(cut.size() == static_cast<size_t>(stages) + 1);
      CHECK(std::adjacent_find(cut.begin(), cut.end(), std::greater_equal<>()) == cut.end());
      CHECK(largest(some, cut) == doctest::Approx(smallest_largest(some, stages)));
    }
  }
}

TEST_CASE("partition: equal layers are spread evenly, the longer stages first") {
  const auto cut = dist::balanced_boundaries({.fixed = std::vector<double>(7, 0.1)}, 3);
  CHECK(cut == std::vector<int64_t>{0, 3, 5, 7});
}

TEST_CASE("partition: stages with more live micro-batches get fewer layers") {
  const std::vector<double> ones(12, 1);
  const auto cut =
      dist::balanced_boundaries({.fixed = std::vector<double>(12), .scaled = ones, .live = {4, 3, 2, 1}}, 4);
  CHECK(cut == std::vector<int64_t>{0, 1, 3, 6, 12});  // 4, 6, 6, 6 against 12, 9, 6, 3 for equal stages
}

TEST_CASE("partition: layers of a kind, by a pattern") {
  const models::Gpt gpt({.layers = 4, .width = 8});
  const nn::LayeredModel layers = gpt.to_layered_model();
  const auto costs = dist::layer_costs(layers);
  const auto cut = [&](const char* method, int stages) {
    return dist::partition_layers(layers.layers, costs, dist::parse_partition_method(method), stages);
  };
  const std::vector<int64_t> blocks = cut("type:^BLOCK$", 2);
  CHECK(blocks[1] == 3);  // embeddings and two blocks
  CHECK(cut("0,2,6", 2) == std::vector<int64_t>{0, 2, 6});
  CHECK(message_of([&] { cut("type:Conv", 2); }) ==
        "partition method type:Conv: no layer matches; their kinds are function, Block, LayerNorm");
  CHECK(message_of([&] { cut("type:(", 2); }).starts_with("partition method type:(: expected a regular"));
  CHECK(message_of([&] { cut("profile", 2); }) ==
        "partition method profile: expected the FLOPs of layers (layer_costs with inputs on meta), got none");
  CHECK(message_of([&] { cut("uniform", 7); }) ==
        "partition: expected at least a layer for each of 7 stages, got 6 layers");
  for (const char* wrong : {"0,6", "0,4,2,6", "1,3,6", "0,3,7"})
    CHECK(message_of([&] { cut(wrong, 2); }) ==
          text("partition boundaries: expected 3 numbers that ascend from 0 to 6, the number of layers, got ",
               wrong));
  for (const char* wrong : {"", "params", "0,,6", "type:", "0,3,"})
    CHECK(message_of([&] { cut(wrong, 2); }) ==
          text("partition method '", wrong,
               "': expected uniform, parameters, type:REGEX, profile, memory, or boundaries such as "
               "0,4,7,10"));
}

TEST_CASE("partition: FLOPs and activation bytes of layers, from a run on meta") {
  const models::Dnn dnn({.layers = 3, .width = 16});
  const nn::LayeredModel layers = dnn.to_layered_model();
  const Tensor x = Tensor::empty({5, 16}, f32, meta());
  const auto costs = dist::layer_costs(layers, {Variable(x)}, {x});
  REQUIRE(costs.size() == 3);
  for (const LayerCost& cost : costs) {
    CHECK(cost.flops == 2 * 5 * 16 * 16);
    CHECK(cost.parameters == 16 * 16 + 16);
    CHECK(cost.parameter_bytes == 4 * cost.parameters);
    CHECK(cost.activation_bytes >= 5 * 16 * 4);
  }
  CHECK(dist::partition_layers(layers.layers, costs, dist::parse_partition_method("profile"), 3) ==
        std::vector<int64_t>{0, 1, 2, 3});
}
