// An average of a sharded module holds the values of one of the full module, under every strategy, and a
// checkpoint of it is loaded by every other.

#include "nn/average.h"

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/reduction.h"
#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/checkpoint/model_state.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/rules/sgd.h"
#include "tests/dist/checkpoint/checkpoint_fixture.h"
#include "tests/dist/fsdp/against_one_device.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

constexpr int64_t C = 5;

struct Net : nn::Layer<Net> {
  nn::Linear& a = add<nn::Linear>("a", {.in = C, .out = C});
  nn::Linear& b = add<nn::Linear>("b", {.in = C, .out = 3});
  Variable forward(const Variable& x) { return b(gelu(a(x))); }
};

Variable input(int64_t sample) {
  const Tensor x = Tensor::empty({2, C}, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>((sample * 7 + i * 5) % 11) / 5 - 1;
  return Variable(x);
}

using Average = nn::ExponentialMovingAverage;

/// Three steps, each followed by an update; `add_gradients(step)` runs forward and backward.
template <class AddGradients>
void train(Net& net, Average& average, const AddGradients& add_gradients) {
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  for (int step = 0; step < 3; ++step) {
    add_gradients(step);
    sgd.step();
    sgd.zero_grad();
    average.update();
  }
}

std::vector<test::Shard> shards_of(const Average& average) {
  std::vector<test::Shard> shards;
  for (const NamedParameter& p : average.averages())
    shards.push_back({p.name, p.shard ? p.shard->first : 0, p.values().clone().view({-1})});
  return shards;
}

/// A module of a rank, and its average.
struct Run {
  Run(World& world, const test::Setting& setting, Precision precision = {})
      : world(world),
        sharding(dist::shard(net, {.mesh = test::mesh_for(world, setting),
                                   .strategy = setting.strategy,
                                   .units = every<nn::Linear>(),
                                   .precision = precision})) {
    nn::materialize(net, cpu(), 3);
    average.emplace(net, nn::AverageOptions{.decay = 0.75});
  }
  void train() {
    ::train(net, *average, [&](int step) { sum(net(input(step + 10 * world.rank()))).backward(); });
  }
  std::vector<GroupShard> groups() {
    const ShardPlacement placement = placement_of(sharding);
    std::vector<GroupShard> groups = dist::shards_of(net, nullptr, placement);
    groups.push_back(average_shards(*average, placement));
    return groups;
  }

  World& world;
  Net net;
  Sharding& sharding;
  std::optional<Average> average;
};

struct Expected {
  std::vector<test::Shard> averages;
  Tensor output;  // of the module with the averages
};

Expected on_one_device(int ranks) {
  Net net;
  nn::materialize(net, cpu(), 3);
  Average average(net, {.decay = 0.75});
  train(net, average, [&](int step) {
    for (int rank = 0; rank < ranks; ++rank)
      sum(net(input(step + 10 * rank))).backward(Variable(Tensor::scalar(1.0f / static_cast<float>(ranks))));
  });
  const auto swapped = average.swap_in();
  return {shards_of(average), net(input(1)).value()};
}

}  // namespace

TEST_CASE("average on ranks: shards have the values of one device, and the module computes with them") {
  for (const int ranks : {2, 3, 4}) {
    const Expected expected = on_one_device(ranks);
    test::require_no_problems(ranks, [&](World& world) {
      std::vector<std::string> problems;
      for (const test::Setting& setting : test::settings_for(world)) {
        Run run(world, setting);
        run.train();
        std::vector<std::string> found = test::differences(shards_of(*run.average), expected.averages, 1e-6f);
        const std::vector<test::Shard> trained = test::shards_of(run.net);
        {
          const auto swapped = run.average->swap_in();
          const Tensor output = run.net(input(1)).value();
          for (const std::string& problem : test::differences({{"the output", 0, output.view({-1})}},
                                                              {{"", 0, expected.output.view({-1})}}, 1e-5f))
            found.push_back(problem);
        }
        for (const std::string& problem : test::differences(test::shards_of(run.net), trained, 0))
          found.push_back("after the swap: " + problem);
        if (run.average->n_averaged() != 3) found.push_back("the number of updates");
        for (const std::string& problem : found) problems.push_back(text(to_string(setting), ": ", problem));
      }
      return problems;
    });
  }
}

TEST_CASE("average on ranks: a checkpoint is loaded under every other strategy, with the same bits") {
  test::require_no_problems(4, [&](World& world) {
    std::vector<std::string> problems;
    std::vector<test::Setting> settings = test::settings_for(world);
    for (size_t i = 0; i < settings.size(); ++i) {
      static TemporaryFolder folders[8];  // the same on all ranks
      const std::string root = folders[i] / "run";
      Run saved(world, settings[i]);
      saved.train();
      save_checkpoint(world.communicator(), root, state_at(1), saved.groups());
      Run loaded(world, settings[(i + 2) % settings.size()]);
      load_checkpoint(world.communicator(), *open_checkpoint(world.communicator(), root), loaded.groups());
      if (loaded.average->n_averaged() != 3) problems.push_back("the number of updates");
      // The same strategy's shards have the same bounds: compare after one more load.
      Run again(world, settings[i]);
      save_checkpoint(world.communicator(), root + "2", state_at(1), loaded.groups());
      load_checkpoint(world.communicator(), *open_checkpoint(world.communicator(), root + "2"),
                      again.groups());
      for (const std::string& problem :
           test::differences(shards_of(*again.average), shards_of(*saved.average), 0))
        problems.push_back(text(to_string(settings[i]), ": ", problem));
    }
    return problems;
  });
}

TEST_CASE("average on ranks: what needs full averages, and an average made before sharding, are refused") {
  test::require_no_problems(2, [&](World& world) {
    std::vector<std::string> problems;
    const auto expect = [&](const char* expected, const auto& call) {
      try {
        call();
        problems.push_back(text("no error: ", expected));
      } catch (const ConfigError& error) {
        if (std::string(error.what()).find(expected) == std::string::npos) problems.push_back(error.what());
      }
    };
    Run run(world, {Strategy::full_shard});
    expect("dist::average_shards", [&] { (void)run.average->state_dict(); });
    expect("dist::average_shards", [&] { run.average->load_state_dict({}); });
    Net net;
    nn::materialize(net, cpu(), 3);
    Average early(net);
    dist::shard(net, {.mesh = Mesh(world), .units = every<nn::Linear>()});
    expect("make it after dist::shard", [&] { early.update(); });
    return problems;
  });
}
