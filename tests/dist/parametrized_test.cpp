// Weight and spectral norm of a sharded model: initial values, checkpoints. The parity matrix trains one.

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/reduction.h"
#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/checkpoint/model_state.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "nn/parametrize/norms.h"
#include "optim/rules/sgd.h"
#include "tests/dist/checkpoint/checkpoint_fixture.h"
#include "tests/dist/fsdp/against_one_device.h"
#include "tests/nn/golden_net.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

struct Net : nn::Layer<Net> {
  nn::Linear& in = nn::weight_norm(add<nn::Linear>("in", {.in = 3, .out = 5}));
  nn::Linear& out = nn::spectral_norm(add<nn::Linear>("out", {.in = 5, .out = 3}));
  Variable forward(const Variable& x) { return out(gelu(in(x))); }
};

struct Run {
  Run(World& world, const test::Setting& setting, uint64_t seed)
      : mesh(test::mesh_for(world, setting)),
        sharding(
            dist::shard(net, {.mesh = mesh, .strategy = setting.strategy, .units = every<nn::Linear>()})) {
    nn::materialize(net, cpu(), seed);
  }
  std::vector<GroupShard> groups() { return dist::shards_of(net, nullptr, placement_of(sharding)); }
  Tensor result() { return net(Variable(module_goldens::pattern({2, 3}))).value(); }

  Net net;
  Mesh mesh;
  Sharding& sharding;
};

}  // namespace

TEST_CASE("parametrised layers: sharded, they begin as on one device, and checkpoints have their state") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    Net single;
    nn::materialize(single, cpu(), 5);
    single.eval();
    const Tensor expected = single(Variable(module_goldens::pattern({2, 3}))).value();
    const std::vector<test::Setting> settings = test::settings_for(world);
    for (size_t i = 0; i < settings.size(); ++i) {
      static TemporaryFolder folders[4];  // the same on all ranks
      const std::string root = folders[i] / "run";
      Run saved(world, settings[i], 5), loaded(world, settings[(i + 1) % settings.size()], 6);
      saved.net.eval();
      if (!same_bits(saved.result(), expected))
        problems.push_back(text(to_string(settings[i]), ": other results than on one device"));
      saved.net.train();
      optim::SGD sgd(saved.net.parameters(), {.lr = 0.1});
      for (int step = 0; step < 2; ++step) {
        sum(square(saved.net(Variable(module_goldens::pattern({2, 3}))))).backward();
        sgd.step();
        sgd.zero_grad();
      }
      save_checkpoint(world.communicator(), root, state_at(1), saved.groups());
      load_checkpoint(world.communicator(), *open_checkpoint(world.communicator(), root), loaded.groups());
      saved.net.eval();
      loaded.net.eval();
      if (!same_bits(saved.result(), loaded.result()))
        problems.push_back(text(to_string(settings[i]), ": other results after loading"));
      try {
        nn::remove_parametrizations(saved.net.in);
        problems.push_back("removed from a sharded module");
      } catch (const ConfigError&) {
      }
    }
    return problems;
  });
}
