#include <doctest/doctest.h>

#include <functional>
#include <optional>

#include "dist/fsdp/shard.h"
#include "dist/launch/launch.h"
#include "dist/state/background_save.h"
#include "dist/state/distributed_checkpoint.h"
#include "dist/state/model_state.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/parameter_groups.h"
#include "tests/dist/checkpoint_fixture.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

struct Setup {
  Strategy strategy = Strategy::no_shard;
  int replicas = 1, shards = 1;
  std::optional<DType> compute = {};
};
std::string to_string(const Setup& setup) {
  return text(setup.strategy, " on ", setup.replicas, " x ", setup.shards,
              setup.compute ? text(" in ", *setup.compute) : "");
}

const models::GptOptions options{
    .vocabulary = 11, .block_size = 8, .layers = 2, .heads = 2, .width = 10, .bias = true};

/// A model and its optimizer as one rank has them.
class ShardedRun {
 public:
  ShardedRun(World& world, const Setup& setup, uint64_t seed)
      : world_(world),
        mesh_(world, {{"replica", setup.replicas}, {"shard", setup.shards}}),
        gpt_(options),
        sharding_(shard(gpt_, {.mesh = mesh_,
                               .strategy = setup.strategy,
                               .units = every<models::Block>(),
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
      gpt_(ids, targets).backward();
      const optim::ClipCoefficient clip = optim::clip_coefficient(gpt_.parameters(), 0.5);
      adam_->step({.clip = clip.coefficient});
      adam_->zero_grad();
    }
  }
  std::vector<PieceGroup> pieces() { return pieces_of(gpt_, &*adam_, holding_of(sharding_)); }
  std::string save(const std::string& root) {
    return save_checkpoint(world_.communicator(), root, state_at(1), pieces());
  }
  void load(const std::string& path) {
    load_checkpoint(world_.communicator(), *open_checkpoint(world_.communicator(), path), pieces());
  }

 private:
  World& world_;
  Mesh mesh_;
  models::Gpt gpt_;
  Sharding& sharding_;
  std::optional<optim::AdamW> adam_;
};

/// Runs `body` on every rank of a setup.
void on_ranks(const Setup& setup, uint64_t seed, const std::function<void(ShardedRun&, World&)>& body) {
  launch(
      [&](World& world) {
        ShardedRun run(world, setup, seed);
        body(run, world);
      },
      {.virtual_ranks = setup.replicas * setup.shards, .timeout = std::chrono::seconds(60)});
}

/// The first tensor that differs between two checkpoints, in numbers or at all; "" for none.
std::string difference(const std::string& one, const std::string& other) {
  const CheckpointReader a(find_checkpoint(one)), b(find_checkpoint(other));
  if (a.tensors().size() != b.tensors().size()) return "other tensors";
  for (const auto& [id, stored] : a.tensors()) {
    const Tensor x = Tensor::empty(stored.shape, stored.dtype), y = Tensor::empty(stored.shape, stored.dtype);
    a.read(id, whole(stored.shape), x);
    b.read(id, whole(stored.shape), y);
    if (!same_bits(x, y)) return to_string(id);
  }
  return "";
}

const Setup setups[] = {{Strategy::no_shard, 1, 2},      {Strategy::no_shard, 1, 3, bf16},
                        {Strategy::shard_optim, 1, 3},   {Strategy::shard_optim, 1, 2, bf16},
                        {Strategy::shard_grad_op, 1, 4}, {Strategy::shard_grad_op, 1, 2, bf16},
                        {Strategy::full_shard, 1, 1},    {Strategy::full_shard, 1, 3},
                        {Strategy::full_shard, 1, 5},    {Strategy::full_shard, 1, 2, bf16},
                        {Strategy::hybrid_shard, 2, 2},  {Strategy::hybrid_shard_zero2, 2, 2},
                        {Strategy::hybrid_shard, 2, 3}};

}  // namespace

TEST_CASE("sharded model: every strategy's checkpoint is loaded by every other, to the bit") {
  for (const Setup& from : setups) {
    const TemporaryFolder folder;
    on_ranks(from, 1, [&](ShardedRun& run, World&) {
      run.train(0, 2);
      run.save(folder / "from");
    });
    for (const Setup& to : setups) {
      on_ranks(to, 2, [&](ShardedRun& run, World&) {
        run.load(folder / "from");
        run.save(folder / "to");
      });
      CAPTURE(to_string(from));
      CAPTURE(to_string(to));
      CHECK(difference(folder / "from", folder / "to") == "");
    }
  }
}

TEST_CASE("sharded model: a run that was stopped goes on with the bits of one that was not") {
  for (const Setup& setup : setups) {
    const TemporaryFolder folder;
    on_ranks(setup, 1, [&](ShardedRun& run, World& world) {
      BackgroundSave background(world.shared_communicator());
      run.train(0, 3);
      background.start(folder / "stopped", state_at(1), run.pieces());
      run.train(3, 3);
      background.wait();
      run.save(folder / "whole");
    });
    on_ranks(setup, 2, [&](ShardedRun& run, World&) {
      run.train(0, 1);  // what was there before must not show
      run.load(folder / "stopped");
      run.train(3, 3);
      run.save(folder / "resumed");
    });
    CAPTURE(to_string(setup));
    CHECK(difference(folder / "whole", folder / "resumed") == "");
    CHECK(difference(folder / "whole", folder / "stopped") != "");
  }
}

TEST_CASE("sharded model: one process without ranks reads and writes the same checkpoints") {
  const TemporaryFolder folder;
  models::Gpt gpt(options);
  nn::materialize(gpt, cpu(), 3);
  optim::AdamW adam(
      optim::decay_groups(gpt.parameters(), optim::AdamWOptions{.lr = 0.01, .weight_decay = 0.1}));
  const auto tensors = [&] {
    return std::vector<TensorGroup>{{"model", gpt.state_dict()}, {"optimizer", adam.state().tensors}};
  };
  save_checkpoint(folder / "one", state_at(1), tensors());
  for (const Setup& setup : {Setup{Strategy::full_shard, 1, 3}, Setup{Strategy::hybrid_shard, 2, 2}}) {
    on_ranks(setup, 1, [&](ShardedRun& run, World&) {
      run.load(folder / "one");
      run.save(folder / "many");
      run.train(0, 2);
      run.save(folder / "trained");
    });
    CHECK(difference(folder / "one", folder / "many") == "");
    load_checkpoint(CheckpointReader(find_checkpoint(folder / "trained")), tensors());
    save_checkpoint(folder / "back", state_at(1), tensors());
    CHECK(difference(folder / "trained", folder / "back") == "");
    CHECK(difference(folder / "trained", folder / "one") != "");
    load_checkpoint(CheckpointReader(find_checkpoint(folder / "one")), tensors());
  }
}
