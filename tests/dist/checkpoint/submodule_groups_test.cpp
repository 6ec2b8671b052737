#include <doctest/doctest.h>

#include <set>
#include <string>

#include "autograd/functions/reduction.h"
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

struct Model : nn::Layer<Model> {
  nn::Linear& encoder = add<nn::Linear>("encoder", {.in = 5, .out = 5});
  nn::Linear& decoder = add<nn::Linear>("decoder", {.in = 5, .out = 5});
  Variable forward(const Variable& x) { return decoder(encoder(x)); }
};

void train(Model& model, optim::Optimizer& adam, int steps) {
  for (int step = 0; step < steps; ++step) {
    sum(model(Variable(Tensor::scalar(0.5f + static_cast<float>(step)).expand({3, 5}).clone()))).backward();
    adam.step();
    adam.zero_grad();
  }
}

std::vector<optim::ParameterGroup<optim::AdamWOptions>> two_groups(Model& model) {
  return {{model.encoder.parameters(), {.lr = 0.1}}, {model.decoder.parameters(), {.lr = 0.02}}};
}

}  // namespace

TEST_CASE("groups by submodule: a sharded run saves under full names, and one device loads and continues") {
  const TemporaryFolder folder;
  launch(
      [&](World& world) {
        Model model;
        Sharding& sharding = dist::shard(
            model, {.mesh = Mesh(world), .strategy = Strategy::full_shard, .units = every<nn::Linear>()});
        nn::materialize(model, cpu(), 3);
        optim::AdamW adam(two_groups(model));
        train(model, adam, 2);
        const auto shards = [&] { return shards_of(model, &adam, placement_of(sharding)); };
        save_checkpoint(world.communicator(), folder / "first", state_at(1), shards());
        train(model, adam, 2);
        save_checkpoint(world.communicator(), folder / "second", state_at(2), shards());
      },
      {.virtual_ranks = 3, .timeout = std::chrono::seconds(60)});

  Model model;
  nn::materialize(model, cpu(), 4);
  optim::AdamW adam(two_groups(model));
  const std::vector<TensorGroup> groups{{"model", model.state_dict()}, {"optimizer", adam.state().tensors}};
  load_checkpoint(CheckpointReader(find_checkpoint(folder / "first")), groups);
  train(model, adam, 2);
  const CheckpointReader second(find_checkpoint(folder / "second"));
  CHECK(second.tensors().contains({"optimizer", "exp_avg/encoder.weight"}));
  for (const TensorGroup& group : groups)
    for (const NamedTensor& entry : group.tensors) {
      const Tensor expected = Tensor::empty(entry.tensor.shape(), entry.tensor.dtype());
      second.read({group.name, entry.name}, full_range(expected.shape()), expected);
      CAPTURE(entry.name);
      if (expected.dtype() == i64) {
        CHECK(expected.item_i64() == entry.tensor.item_i64());
        continue;
      }
      for (int64_t i = 0; i < expected.numel(); ++i)
        CHECK(entry.tensor.data<float>()[i] == doctest::Approx(expected.data<float>()[i]).epsilon(1e-5));
    }
}
