#include "dist/train/estimate/memory_tables.h"

#include <doctest/doctest.h>

#include "models/presets.h"
#include "nn/layers/linear.h"
#include "tensor/error.h"
#include "tests/support/error_text.h"

using namespace tessera;
using training::ModelSize;
using training::StageSize;

namespace {

constexpr int64_t block = 7'085'568;      // of GPT-lite
constexpr int64_t L = 768 * 3072 + 3072;  // its largest layer
constexpr int64_t norm = 2 * 768, head = 65 * 768, embeddings = 65 * 768 + 2048 * 768;

struct Tied : nn::Layer<Tied> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 6, .out = 4});
  Variable& again = share_parameter("again", first.weight);
  Variable& table = buffer("table", {3}, init::zeros());
};

}  // namespace

TEST_CASE(
    "model size: tied weights once, a layer is what a module declares itself, buffers are in the total") {
  const ModelSize size = training::model_size(Tied());
  CHECK(size.parameters == 28);
  CHECK(size.bytes == 4 * 28);
  CHECK(size.largest_layer == 28);
  CHECK(size.largest_leaf_bytes == 4 * 28);
  CHECK(size.total_bytes == 4 * (28 + 3));
  const models::Gpt gpt(models::gpt_lite(65));
  const ModelSize lite = training::model_size(gpt);
  CHECK(lite.parameters == 86'701'056);
  CHECK(lite.parameters == models::parameter_count(gpt.o));
  CHECK(lite.largest_layer == L);
}

TEST_CASE("model size: the native size is printed as round() prints it") {
  CHECK(training::native_size_text(4 * int64_t{86'701'056}) == "Native model parameters size: 0.32GB.");
  CHECK(training::native_size_text(4 * int64_t{86'701'056}, 3) == "Native model parameters size: 0.323GB.");
  CHECK(training::native_size_text(int64_t{1} << 29) == "Native model parameters size: 0.5GB.");
  CHECK(training::native_size_text(int64_t{1} << 31) == "Native model parameters size: 2.0GB.");
  CHECK_THROWS_AS(training::native_size_text(-1), ConfigError);
}

TEST_CASE("partition: GPT-lite in four stages, with embeddings as a function and as a layer") {
  std::vector<int64_t> layers{0};
  layers.insert(layers.end(), 12, block);
  layers.insert(layers.end(), {norm, head, 0});
  CHECK(training::partition_by_parameters(layers, 4) == std::vector<int64_t>{0, 4, 7, 10, 16});
  layers.front() = embeddings;
  layers.pop_back();
  CHECK(training::partition_by_parameters(layers, 4) == std::vector<int64_t>{0, 4, 7, 10, 15});
}

TEST_CASE("partition: every stage has a layer, and the largest stage is the least possible") {
  using Sizes = std::vector<int64_t>;
  CHECK(training::partition_by_parameters(Sizes{5, 1, 1, 1}, 3) == Sizes{0, 1, 3, 4});
  CHECK(training::partition_by_parameters(Sizes{0, 0, 0}, 3) == Sizes{0, 1, 2, 3});
  CHECK(training::partition_by_parameters(Sizes{1, 2, 3}, 1) == Sizes{0, 3});
  CHECK_THROWS_AS(training::partition_by_parameters(Sizes{1, 2}, 3), ConfigError);
  CHECK_THROWS_AS(training::partition_by_parameters(Sizes{1, 2}, 0), ConfigError);
  CHECK_THROWS_AS(training::partition_by_parameters(Sizes{1, -2}, 1), ConfigError);
  // Against all ways to cut a list, for pseudo-random sizes.
  uint64_t state = 1;
  for (int round = 0; round < 50; ++round) {
    Sizes sizes(3 + round % 6);
    for (int64_t& size : sizes) size = static_cast<int64_t>((state = state * 6364136223846793005u + 1) >> 60);
    const Sizes bounds = training::partition_by_parameters(sizes, 3);
    const auto largest = [&](int64_t a, int64_t b) {
      int64_t sums[3] = {0, 0, 0};
      for (int64_t i = 0; i < std::ssize(sizes); ++i) sums[(i >= a) + (i >= b)] += sizes[i];
      return std::max({sums[0], sums[1], sums[2]});
    };
    int64_t best = largest(1, 2);
    for (int64_t a = 1; a < std::ssize(sizes); ++a)
      for (int64_t b = a + 1; b < std::ssize(sizes); ++b) best = std::min(best, largest(a, b));
    REQUIRE(bounds.size() == 4);
    CHECK(bounds[0] == 0);
    CHECK(bounds[3] == std::ssize(sizes));
    CHECK(bounds[1] > 0);
    CHECK(bounds[2] > bounds[1]);
    CHECK(bounds[3] > bounds[2]);
    CHECK(largest(bounds[1], bounds[2]) == best);
  }
}

TEST_CASE("stages: two blocks give 0.053, 0.026 / 0.079 and 0.009 / 0.038 GB, three blocks 0.079 GB") {
  const std::vector<StageSize> stages{{"2 blocks", 2 * block, L}, {"3 blocks", 3 * block, L}};
  CHECK(2 * block == 14'171'136);
  CHECK(3 * block == 21'256'704);
  CHECK(training::stage_memory_table(stages, {.num_gpus_per_node = 8, .decimals = 3}) ==
        "  stage    |   params |    base | ZeRO-2 offload |  ZeRO-2 | ZeRO-3 offload |  ZeRO-3\n"
        "  2 blocks | 14171136 | 0.053GB |        0.026GB | 0.079GB |        0.009GB | 0.038GB\n"
        "  3 blocks | 21256704 | 0.079GB |        0.040GB | 0.119GB |        0.009GB | 0.053GB\n");
}

TEST_CASE("accelerate: bytes per dtype, training with Adam is 4 times or twice the f32 total, or N/A") {
  const std::vector<std::string> dtypes{"float32", "float16", "bfloat16", "int8", "int4"};
  // 3 MB and 300 MB in f32.
  CHECK(training::accelerate_memory_table("net", 3 << 20, 300 << 20, dtypes) ==
        "Memory usage for loading `net`\n"
        "  dtype    | Largest Layer | Total Size | Training using Adam\n"
        "  float32  |        3.0 MB |   300.0 MB |             1.17 GB\n"
        "  float16  |        1.5 MB |   150.0 MB |            600.0 MB\n"
        "  bfloat16 |        1.5 MB |   150.0 MB |            600.0 MB\n"
        "  int8     |      768.0 KB |    75.0 MB |                 N/A\n"
        "  int4     |      384.0 KB |    37.5 MB |                 N/A\n");
  CHECK(training::accelerate_bytes_text(0) == "0.0 bytes");
  CHECK(training::accelerate_bytes_text(1023) == "1023.0 bytes");
  CHECK(training::accelerate_bytes_text(2.0 * (int64_t{1} << 50)) == "2.0 PB");
  CHECK(contains(message_of<ConfigError>([] { training::dtype_memory(1, 1, "float8"); }), "got 'float8'"));
  CHECK_THROWS_AS(training::dtype_memory(-1, 1, "int8"), ConfigError);
}

TEST_CASE("sharding table: a row per strategy, 16P, 8P + 8P/N and 16P/N held") {
  // 2^27 = 16,384 x 8,192 parameters: 16P is 2 GiB.
  nn::Linear linear(nn::LinearOptions{.in = 8192, .out = 16384, .bias = false});
  const std::string table = training::sharding_memory_table(linear, {}, {.shards = 4}, 3);
  CHECK(table ==
        "  strategy      | parameters | gradients | optimizer |    held | temporary | sent per step\n"
        "  no_shard      |    0.500GB |   0.500GB |   1.000GB | 2.000GB |   0.000GB |       0.750GB\n"
        "  shard_optim   |    0.500GB |   0.500GB |   0.250GB | 1.250GB |   0.000GB |       0.750GB\n"
        "  shard_grad_op |    0.125GB |   0.125GB |   0.250GB | 0.500GB |   1.000GB |       0.750GB\n"
        "  full_shard    |    0.125GB |   0.125GB |   0.250GB | 0.500GB |   1.000GB |       0.750GB\n");
  CHECK_THROWS_AS(training::sharding_memory_table(linear, {}, {.shards = 0}), ConfigError);
}
