#include "dist/train/ranks/root_process.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>

#include "autograd/functions/layers/dropout.h"
#include "nn/layer.h"
#include "nn/layers/dropout.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "nn/save.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/random/random_context.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/fsdp/rank_threads.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;

namespace {

struct Net : nn::Layer<Net> {
  nn::Linear& out = add<nn::Linear>("out", {.in = 6, .out = 5});
  Variable forward(const Variable& x) { return out(x); }
};

std::vector<float> values_of(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.numel()};
}

}  // namespace

TEST_CASE("root process: four ranks print each line once") {
  std::ostringstream out;
  test::require_no_problems(4, [&](dist::World& world) -> std::vector<std::string> {
    for (int epoch = 0; epoch < 3; ++epoch) training::print0(world, out, "epoch ", epoch, " loss ", 0.5);
    if (training::is_root_process(world) != (world.rank() == 0)) return {"is_root_process is wrong"};
    return {};
  });
  CHECK(out.str() == "epoch 0 loss 0.5\nepoch 1 loss 0.5\nepoch 2 loss 0.5\n");
}

TEST_CASE("root process: four ranks write one file, with the full values of a sharded model too") {
  Net expected;
  nn::materialize(expected, cpu(), 7);
  for (const bool is_sharded : {false, true}) {
    CAPTURE(is_sharded);
    const TemporaryFolder folder;
    const std::string path = folder / "model.safetensors";
    test::require_no_problems(4, [&](dist::World& world) -> std::vector<std::string> {
      Net net;
      dist::Sharding* sharding = nullptr;
      if (is_sharded)
        sharding = &dist::shard(net, {.mesh = dist::Mesh(world), .strategy = dist::Strategy::full_shard});
      nn::materialize(net, cpu(), 7);
      training::save0(world, net, path, sharding);
      if (!std::filesystem::exists(path)) return {"the file is not there when save0 returns"};
      return {};
    });
    int files = 0;
    for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder.path())) ++files;
    CHECK(files == 1);
    Net loaded;
    nn::materialize(loaded, cpu(), 8);
    nn::load(loaded, path);
    CHECK(values_of(loaded.out.weight.value()) == values_of(expected.out.weight.value()));
    CHECK(values_of(loaded.out.bias->value()) == values_of(expected.out.bias->value()));
  }
}

TEST_CASE("rank seed: dropout masks of ranks differ, and a second run repeats them") {
  const auto masks = [](bool is_by_rank) {
    return on_ranks<std::vector<float>>(2, [&](dist::World& world) {
      nn::Dropout drop(0.5);
      const uint64_t seed = is_by_rank ? training::rank_seed(42, world) : 42;
      const std::vector<int64_t> samples{0, 1};  // the same on both ranks
      begin_random_step(seed, 0, samples);
      return values_of(drop(Variable(ops::full({2, 32}, 1.0, f32))).value());
    });
  };
  const auto first = masks(true), again = masks(true), equal = masks(false);
  CHECK(first[0] != first[1]);
  CHECK(first == again);
  CHECK(equal[0] == equal[1]);
  CHECK(first[0] == equal[0]);  // rank 0 has the seed itself
}

TEST_CASE("rank seed: manual_seed gives each rank numbers of its own") {
  const auto drawn = [] {
    return on_ranks<std::vector<float>>(3, [](dist::World& world) {
      manual_seed(training::rank_seed(5, world));
      return values_of(rand({8}));
    });
  };
  const auto first = drawn();
  CHECK(first[0] != first[1]);
  CHECK(first[1] != first[2]);
  CHECK(drawn() == first);
}
