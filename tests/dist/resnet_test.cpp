// A small ResNet under every strategy: with batch norms over all ranks it trains as one process on all
// images; with each rank's own statistics every strategy has the bits of no_shard; with a frozen backbone;
// and with blocks that run again in backward.

#include "models/resnet.h"

#include "autograd/functions/layers/loss.h"
#include "dist/mesh/rank_statistics.h"
#include "nn/checkpoint_modules.h"
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

struct Variant {
  bool synchronized = true, frozen = false, checkpointed = false;
};

std::vector<test::Shard> train_sharded(World& world, const test::Setting& setting, const Variant& variant) {
  models::ResNet model(small);
  const Mesh mesh = test::mesh_for(world, setting);
  if (variant.frozen) freeze_backbone(model);
  if (variant.synchronized) synchronize_batch_norm(model, mesh);
  if (variant.checkpointed) nn::checkpoint_every<models::BasicBlock>(model);
  dist::shard(model, {.mesh = mesh, .strategy = setting.strategy, .units = every<models::BasicBlock>()});
  nn::materialize(model, cpu(), 3);
  return train(model, images_per_rank * world.rank(), images_per_rank);
}

std::vector<std::string> check_synchronized(World& world, const Variant& variant) {
  const auto sharded = [&](const test::Setting& setting) { return train_sharded(world, setting, variant); };
  const auto single = [&] {
    models::ResNet model(small);
    if (variant.frozen) freeze_backbone(model);
    nn::materialize(model, cpu(), 3);
    return train(model, 0, images_per_rank * world.size());
  };
  return test::compare_all(world, sharded, single, 2e-4f);
}

}  // namespace

TEST_CASE("resnet, batch norms over ranks: it trains as one process on all images, under every strategy") {
  for (const int ranks : {2, 4})
    test::require_no_problems(ranks, [](World& world) { return check_synchronized(world, {}); });
}

TEST_CASE("resnet, frozen backbone: the classifier trains as on one process, under every strategy") {
  test::require_no_problems(2, [](World& world) { return check_synchronized(world, {.frozen = true}); });
}

TEST_CASE("resnet, blocks that run again in backward: batch norms over ranks see each image once") {
  test::require_no_problems(2,
                            [](World& world) { return check_synchronized(world, {.checkpointed = true}); });
}

TEST_CASE("resnet, each rank's own statistics: every strategy has the bits of no_shard") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    std::vector<test::Shard> no_shard;
    for (const test::Setting& setting : test::settings_for(world))
      for (const bool checkpointed : {false, true}) {
        const std::vector<test::Shard> found =
            train_sharded(world, setting, {.synchronized = false, .checkpointed = checkpointed});
        if (setting.strategy == Strategy::no_shard && !checkpointed) no_shard = found;
        for (const std::string& problem : test::differences(found, no_shard, 0))
          problems.push_back(text(to_string(setting), checkpointed ? ", checkpointed: " : ": ", problem));
      }
    return problems;
  });
}
