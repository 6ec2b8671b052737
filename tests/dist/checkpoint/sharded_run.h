#pragma once

#include <optional>
#include <string>

#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/checkpoint/model_state.h"
#include "dist/fsdp/shard.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/parameter_groups.h"
#include "optim/rules/adam.h"
#include "tests/dist/checkpoint/checkpoint_fixture.h"

namespace tessera::test {

/// How a model is sharded over replicas times shards ranks.
struct Setup {
  dist::Strategy strategy = dist::Strategy::no_shard;
  int replicas = 1, shards = 1;
  std::optional<DType> compute = {};
};
inline std::string to_string(const Setup& setup) {
  return text(setup.strategy, " on ", setup.replicas, " x ", setup.shards,
              setup.compute ? text(" in ", *setup.compute) : "");
}

inline const models::GptOptions small_gpt{
    .vocabulary = 11, .block_size = 8, .layers = 2, .heads = 2, .width = 10, .bias = true};

/// The model and optimizer of one rank.
class ShardedRun {
 public:
  ShardedRun(dist::World& world, const Setup& setup, uint64_t seed)
      : world_(world),
        mesh_(world, {{"replica", setup.replicas}, {"shard", setup.shards}}),
        gpt_(small_gpt),
        sharding_(dist::shard(gpt_, {.mesh = mesh_,
                                     .strategy = setup.strategy,
                                     .units = dist::every<models::Block>(),
                                     .precision = {.compute = setup.compute}})) {
    nn::materialize(gpt_, world.device(), seed);
    adam_.emplace(
        optim::decay_groups(gpt_.parameters(), optim::AdamWOptions{.lr = 0.01, .weight_decay = 0.1}));
  }

  void train(int64_t first_step, int64_t steps) {
    for (int64_t step = first_step; step < first_step + steps; ++step) {
      const Tensor ids = Tensor::empty({2, 8}, i64), targets = Tensor::empty({2, 8}, i64);
      for (int64_t i = 0; i < 16; ++i) {
        ids.data<int64_t>()[i] = (7 * i + 3 * step + 5 * world_.rank()) % 11;
        targets.data<int64_t>()[i] = (ids.data<int64_t>()[i] * 3 + 1) % 11;
      }
      gpt_.loss(ids, targets).backward();
      const optim::ClipCoefficient clip = optim::clip_coefficient(gpt_.parameters(), 0.5);
      adam_->step({.clip = clip.coefficient});
      adam_->zero_grad();
    }
  }
  std::vector<dist::GroupShard> groups() {
    return dist::shards_of(gpt_, &*adam_, dist::placement_of(sharding_));
  }
  std::string save(const std::string& root) {
    return dist::save_checkpoint(world_.communicator(), root, state_at(1), groups());
  }
  void load(const std::string& path) {
    dist::load_checkpoint(world_.communicator(), *dist::open_checkpoint(world_.communicator(), path),
                          groups());
  }

 private:
  dist::World& world_;
  dist::Mesh mesh_;
  models::Gpt gpt_;
  dist::Sharding& sharding_;
  std::optional<optim::AdamW> adam_;
};

/// The first tensor with different values in two checkpoints, or "other tensors"; "" where they are equal.
inline std::string difference(const std::string& one, const std::string& other) {
  using namespace dist;
  const CheckpointReader a(find_checkpoint(one)), b(find_checkpoint(other));
  if (a.tensors().size() != b.tensors().size()) return "other tensors";
  for (const auto& [id, stored] : a.tensors()) {
    const Tensor x = Tensor::empty(stored.shape, stored.dtype), y = Tensor::empty(stored.shape, stored.dtype);
    a.read(id, full_range(stored.shape), x);
    b.read(id, full_range(stored.shape), y);
    if (!same_bits(x, y)) return to_string(id);
  }
  return "";
}

}  // namespace tessera::test
