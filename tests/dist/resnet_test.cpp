// A small ResNet under every strategy: with batch norms over all ranks it trains as one process on all
// images; with each rank's own statistics every strategy has the bits of no_shard; and with a frozen
// backbone.

#include "models/resnet.h"

#include "autograd/functions/layers/loss.h"
#include "dist/mesh/rank_statistics.h"
#include "nn/materialize.h"
#include "optim/rules/sgd.h"
#include "tests/dist/fsdp/against_one_device.h"
#include "tests/tensor/test_values.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

constexpr int64_t images_per_rank = 3;

// Two blocks of Winograd's convolutions (32 channels, 8 x 8 pixels) among others of products.
const models::ResNetOptions small{.classes = 3, .width = 16, .blocks = {1, 1, 1, 1}};

/// All parameters but the classifier's keep their values.
void freeze_backbone(models::ResNet& model) {
  for (const NamedParameter& p : model.parameters())
    if (p.name.rfind("fc.", 0) != 0) p.variable.set_requires_grad(false);
}

/// Images first .. first + n - 1 of an endless input.
Variable images(int64_t first, int64_t n, int64_t step) {
  const Tensor all = random_tensor({12, 3, 16, 16}, f32, static_cast<uint64_t>(step));
  return all.narrow(0, first, n).contiguous();
}
Tensor labels(int64_t first, int64_t n) {
  const Tensor y = Tensor::empty({n}, i64);
  for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = (first + i) % 3;
  return y;
}

std::vector<test::Shard> train(models::ResNet& model, int64_t first, int64_t n) {
  optim::SGD sgd(model.parameters(), {.lr = 0.01, .momentum = 0.9});
  for (int step = 0; step < 2; ++step) {
    sgd.zero_grad();
    cross_entropy(model(images(first, n, step)), labels(first, n)).backward();
    sgd.step();
  }
  std::vector<test::Shard> shards = test::shards_of(model);
  for (const NamedParameter& buffer : model.buffers())
    if (buffer.variable.dtype() == f32) shards.push_back({buffer.name, 0, buffer.variable.value().clone()});
  return shards;
}

std::vector<test::Shard> train_sharded(World& world, const test::Setting& setting, bool synchronized,
                                       bool frozen) {
  models::ResNet model(small);
  const Mesh mesh = test::mesh_for(world, setting);
  if (frozen) freeze_backbone(model);
  if (synchronized) synchronize_batch_norm(model, mesh);
  dist::shard(model, {.mesh = mesh, .strategy = setting.strategy, .units = every<models::BasicBlock>()});
  nn::materialize(model, cpu(), 3);
  return train(model, images_per_rank * world.rank(), images_per_rank);
}

std::vector<std::string> check_synchronized(World& world, bool frozen) {
  const auto sharded = [&](const test::Setting& setting) {
    return train_sharded(world, setting, true, frozen);
  };
  const auto single = [&] {
    models::ResNet model(small);
    if (frozen) freeze_backbone(model);
    nn::materialize(model, cpu(), 3);
    return train(model, 0, images_per_rank * world.size());
  };
  return test::compare_all(world, sharded, single, 2e-4f);
}

}  // namespace

TEST_CASE("resnet, batch norms over ranks: it trains as one process on all images, under every strategy") {
  for (const int ranks : {2, 4})
    test::require_no_problems(ranks, [](World& world) { return check_synchronized(world, false); });
}

TEST_CASE("resnet, frozen backbone: the classifier trains as on one process, under every strategy") {
  test::require_no_problems(2, [](World& world) { return check_synchronized(world, true); });
}

TEST_CASE("resnet, each rank's own statistics: every strategy has the bits of no_shard") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    std::vector<test::Shard> no_shard;
    for (const test::Setting& setting : test::settings_for(world)) {
      const std::vector<test::Shard> found = train_sharded(world, setting, false, false);
      if (setting.strategy == Strategy::no_shard) no_shard = found;
      for (const std::string& problem : test::differences(found, no_shard, 0))
        problems.push_back(text(to_string(setting), ": ", problem));
    }
    return problems;
  });
}
