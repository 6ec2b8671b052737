#include <doctest/doctest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "dist/checkpoint/background_save.h"
#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/checkpoint/model_state.h"
#include "dist/fsdp/shard.h"
#include "dist/launch/launch.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tests/dist/checkpoint/checkpoint_fixture.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

/// `own` is ignored by sharding, and trained. Its parameters and buffer are rank-local tensors.
struct Expert : nn::Layer<Expert> {
  nn::Linear& layer = add<nn::Linear>("layer", {.in = 4, .out = 5});
  Variable& seen = buffer("seen", {1}, init::constant(0.0));
  Variable forward(const Variable& x) { return layer(x); }
};
struct Model : nn::Layer<Model> {
  nn::Linear& shared = add<nn::Linear>("shared", {.in = 4, .out = 4});
  Expert& own = add<Expert>("own");
  Variable forward(const Variable& x) { return own(shared(x)); }
};

/// A rank's model, trained for a few steps. Ranks with different `sample`s are trained with different data.
class Trained {
 public:
  Trained(World& world, std::vector<MeshDimension> mesh, Strategy strategy, uint64_t seed)
      : world_(world),
        mesh_(world, std::move(mesh)),
        sharding_(dist::shard(model_, {.mesh = mesh_, .strategy = strategy, .ignored = {&model_.own}})) {
    nn::materialize(model_, cpu(), seed);
    adam_.emplace(model_.parameters(), optim::AdamWOptions{.lr = 0.1});
  }

  void train(int steps, int sample) {
    for (int step = 0; step < steps; ++step) {
      const Tensor x = Tensor::empty({2, 4}, f32);
      for (int64_t i = 0; i < 8; ++i)
        x.data<float>()[i] = static_cast<float>((i * 7 + step + 5 * sample) % 9 - 4);
      (sum(model_(Variable(x))) * (1.0 + sample)).backward();
      adam_->step();
      adam_->zero_grad();
    }
    model_.own.seen.value().data<float>()[0] = static_cast<float>(sample);
  }
  int along(const std::string& dimension) const { return mesh_.index(dimension); }
  std::vector<GroupShard> groups() { return shards_of(model_, &*adam_, placement_of(sharding_)); }
  void save(const std::string& root) { save_checkpoint(world_.communicator(), root, state_at(1), groups()); }
  void save_in_background(const std::string& root) {
    BackgroundSave save(world_.shared_communicator());
    save.start(root, state_at(1), groups());
    train(1, 9);
    save.wait();
  }
  std::string load(const std::string& root) {
    return refused([&] {
      load_checkpoint(world_.communicator(), *open_checkpoint(world_.communicator(), root), groups());
    });
  }
  /// All tensors that this rank holds.
  std::vector<Tensor> values() {
    std::vector<Tensor> all;
    for (const GroupShard& group : groups())
      for (const TensorShard& shard : group.shards) all.push_back(shard.tensor.clone());
    return all;
  }

 private:
  World& world_;
  Mesh mesh_;
  Model model_;
  Sharding& sharding_;
  std::optional<optim::AdamW> adam_;
};

bool same_values(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!same_bits(a[i], b[i])) return false;
  return a.size() == b.size();
}

void on_ranks(int ranks, const std::function<void(World&)>& body) {
  launch(body, {.virtual_ranks = ranks, .timeout = std::chrono::seconds(60)});
}

/// The stored names of the ignored module's weight and of its Adam state except exp_avg_sq.
std::set<std::string> stored_names(const std::string& root) {
  std::set<std::string> names;
  const CheckpointReader reader(find_checkpoint(root));
  for (const auto& [id, stored] : reader.tensors())
    if (id.name.find("own.layer.weight") != std::string::npos && !id.name.starts_with("exp_avg_sq"))
      names.insert(to_string(id));
  return names;
}

}  // namespace

TEST_CASE("ignored modules: each rank loads its own values of a trained one, and none of other ranks") {
  for (const Strategy strategy : {Strategy::no_shard, Strategy::shard_optim, Strategy::full_shard})
    for (const bool in_background : {false, true}) {
      CAPTURE(name_of(strategy));
      CAPTURE(in_background);
      const TemporaryFolder folder;
      on_ranks(3, [&](World& world) {
        Trained run(world, {{"shard", 3}}, strategy, 1);
        run.train(2, world.rank());
        const std::vector<Tensor> before = run.values();
        in_background ? run.save_in_background(folder / "run") : run.save(folder / "run");
        Trained other(world, {{"shard", 3}}, strategy, 2);
        other.train(1, 7);
        CHECK(other.load(folder / "run") == "");
        CHECK(same_values(other.values(), before));
      });
    }
}

TEST_CASE("ignored modules: values that differ are stored by place, and loaded on the same mesh only") {
  const TemporaryFolder folder;
  on_ranks(2, [&](World& world) {
    Trained run(world, {{"shard", 2}}, Strategy::full_shard, 1);
    run.train(2, world.rank());
    run.save(folder / "run");
  });
  CHECK(stored_names(folder / "run") == std::set<std::string>{"model/own.layer.weight@shard=0",
                                                              "model/own.layer.weight@shard=1",
                                                              "optimizer/exp_avg/own.layer.weight@shard=0",
                                                              "optimizer/exp_avg/own.layer.weight@shard=1",
                                                              "optimizer/step/own.layer.weight"});
  for (const int ranks : {1, 3})
    on_ranks(ranks, [&](World& world) {
      Trained run(world, {{"shard", ranks}}, Strategy::full_shard, 2);
      const std::vector<Tensor> before = run.values();
      const std::string message = run.load(folder / "run");
      CHECK(contains(message, "own.layer.weight"));
      CHECK(contains(message, "rank's own"));
      CHECK(same_values(run.values(), before));  // unchanged
    });
}

TEST_CASE("ignored modules: values that are equal on all ranks are stored once, for any number of ranks") {
  const TemporaryFolder folder;
  on_ranks(2, [&](World& world) {
    Trained run(world, {{"shard", 2}}, Strategy::full_shard, 1);
    run.train(2, 3);
    run.save(folder / "run");
  });
  CHECK(stored_names(folder / "run") == std::set<std::string>{"model/own.layer.weight",
                                                              "optimizer/exp_avg/own.layer.weight",
                                                              "optimizer/step/own.layer.weight"});
  on_ranks(3, [&](World& world) {
    Trained run(world, {{"shard", 3}}, Strategy::no_shard, 2);
    CHECK(run.load(folder / "run") == "");
    run.save(folder / "again");
  });
  on_ranks(1, [&](World& world) {
    Trained one(world, {{"shard", 1}}, Strategy::full_shard, 2),
        other(world, {{"shard", 1}}, Strategy::full_shard, 2);
    CHECK(one.load(folder / "run") == "");
    CHECK(other.load(folder / "again") == "");
    CHECK(same_values(one.values(), other.values()));
  });
}

TEST_CASE("ignored modules: names have the dimensions of the mesh along which values differ, and no others") {
  for (const std::string& differs : {std::string("shard"), std::string("replica")}) {
    CAPTURE(differs);
    const TemporaryFolder folder;
    on_ranks(4, [&](World& world) {
      const std::vector<MeshDimension> mesh{{"replica", 2}, {"shard", 2}};
      Trained run(world, mesh, Strategy::hybrid_shard, 1);
      run.train(2, run.along(differs));
      const std::vector<Tensor> before = run.values();
      run.save(folder / "run");
      Trained other(world, mesh, Strategy::no_shard, 2);
      CHECK(other.load(folder / "run") == "");
      Trained same(world, mesh, Strategy::hybrid_shard, 2);
      CHECK(same.load(folder / "run") == "");
      CHECK(same_values(same.values(), before));
    });
    CHECK(stored_names(folder / "run").contains("model/own.layer.weight@" + differs + "=1"));
    CHECK(stored_names(folder / "run").size() == 5);
  }
}
