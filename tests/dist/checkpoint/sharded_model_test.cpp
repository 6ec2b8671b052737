#include <doctest/doctest.h>

#include <functional>

#include "dist/checkpoint/background_save.h"
#include "dist/launch/launch.h"
#include "tests/dist/checkpoint/sharded_run.h"

using namespace tessera;
using namespace tessera::dist;
using namespace tessera::test;

namespace {

/// Runs `body` on every rank of a setup.
void on_ranks(const Setup& setup, uint64_t seed, const std::function<void(ShardedRun&, World&)>& body) {
  launch(
      [&](World& world) {
        ShardedRun run(world, setup, seed);
        body(run, world);
      },
      {.virtual_ranks = setup.replicas * setup.shards, .timeout = std::chrono::seconds(60)});
}

const Setup setups[] = {{Strategy::no_shard, 1, 2},      {Strategy::no_shard, 1, 3, bf16},
                        {Strategy::shard_optim, 1, 3},   {Strategy::shard_optim, 1, 2, bf16},
                        {Strategy::shard_grad_op, 1, 4}, {Strategy::shard_grad_op, 1, 2, bf16},
                        {Strategy::full_shard, 1, 1},    {Strategy::full_shard, 1, 3},
                        {Strategy::full_shard, 1, 5},    {Strategy::full_shard, 1, 2, bf16},
                        {Strategy::hybrid_shard, 2, 2},  {Strategy::hybrid_shard_zero2, 2, 2},
                        {Strategy::hybrid_shard, 2, 3}};

}  // namespace

TEST_CASE("sharded model: every strategy's checkpoint is loaded by every other, with the same bits") {
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

TEST_CASE("sharded model: a run that was stopped continues with the bits of one that was not") {
  for (const Setup& setup : setups) {
    const TemporaryFolder folder;
    on_ranks(setup, 1, [&](ShardedRun& run, World& world) {
      BackgroundSave background(world.shared_communicator());
      run.train(0, 3);
      background.start(folder / "stopped", state_at(1), run.groups());
      run.train(3, 3);
      background.wait();
      run.save(folder / "uninterrupted");
    });
    on_ranks(setup, 2, [&](ShardedRun& run, World&) {
      run.train(0, 1);  // loading must overwrite these values
      run.load(folder / "stopped");
      run.train(3, 3);
      run.save(folder / "resumed");
    });
    CAPTURE(to_string(setup));
    CHECK(difference(folder / "uninterrupted", folder / "resumed") == "");
    CHECK(difference(folder / "uninterrupted", folder / "stopped") != "");
  }
}

TEST_CASE("sharded model: one process without ranks reads and writes the same checkpoints") {
  const TemporaryFolder folder;
  models::Gpt gpt(small_gpt);
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
