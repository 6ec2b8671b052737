// Parameters frozen and unfrozen after sharding, through the module, their Variables and the local shards: as
// on one device, under every strategy.

#include <functional>

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/rules/adam.h"
#include "tests/dist/fsdp/against_one_device.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

constexpr int64_t C = 5;

struct Net : nn::Layer<Net> {
  nn::Linear& a = add<nn::Linear>("a", {.in = C, .out = C, .weight_init = init::normal(0.5)});
  nn::Linear& b = add<nn::Linear>("b", {.in = C, .out = C, .weight_init = init::normal(0.5)});
  nn::Linear& c = add<nn::Linear>("c", {.in = C, .out = C, .weight_init = init::normal(0.5)});
  Variable& scale = parameter("scale", {C}, init::normal(0.3, 1));
  Variable forward(const Variable& x) { return c(gelu(b(gelu(a(x))))) * scale; }
};

Variable input(int64_t sample) {
  const Tensor x = Tensor::empty({2, C}, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>((sample * 7 + i * 5) % 11) / 5 - 1;
  return x;
}

/// Freezes or unfreezes `name` and what is below it.
using Set = void (*)(Net& net, const std::string& name, bool trained);

void by_module(Net& net, const std::string& name, bool trained) {
  net.at(name).set_requires_grad(trained);
}
void by_variable(Net& net, const std::string& name, bool trained) {
  for (nn::Module::Entry& entry : net.at(name).entries()) entry.variable.set_requires_grad(trained);
}
void by_local_shard(Net& net, const std::string& name, bool trained) {
  for (const NamedParameter& p : net.parameters())
    if (p.name.starts_with(name)) p.variable.set_requires_grad(trained);
}

/// Called before each micro-batch; a step has two.
using Change = std::function<void(Net&, int step, int micro_batch, Set)>;

struct Script {
  std::string name;
  Change change;
  bool starts_frozen = false;  ///< c is frozen before sharding
};

const std::vector<Script> scripts{
    {"frozen",
     [](Net& net, int step, int micro_batch, Set set) {
       if (step == 1 && micro_batch == 0) set(net, "b", false);
     }},
    {"frozen between micro-batches, unfrozen later",
     [](Net& net, int step, int micro_batch, Set set) {
       if (step == 1 && micro_batch == 1) set(net, "b", false);
       if (step == 3 && micro_batch == 0) set(net, "b", true);
     }},
    {"all frozen but one",
     [](Net& net, int step, int micro_batch, Set set) {
       if (step == 1 && micro_batch == 0)
         for (const char* name : {"a", "b", "c"}) set(net, name, false);
       if (step == 3 && micro_batch == 0) set(net, "a", true);
     }},
    {"frozen when sharded, unfrozen later",
     [](Net& net, int step, int micro_batch, Set set) {
       if (step == 1 && micro_batch == 0) set(net, "c", true);
       if (step == 3 && micro_batch == 1) set(net, "c", false);
     },
     true},
    {"unfrozen between micro-batches",
     [](Net& net, int step, int micro_batch, Set set) {
       if (step == 1 && micro_batch == 1) set(net, "c", true);
     },
     true},
};

template <class MicroBatch>
std::vector<test::Shard> train(Net& net, const Script& script, Set set, const MicroBatch& run_micro_batch) {
  optim::AdamW adam(net.parameters(), {.lr = 0.05, .eps = 1e-2, .weight_decay = 0.1});
  std::vector<test::Shard> all;
  for (int step = 0; step < 4; ++step) {
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      script.change(net, step, micro_batch, set);
      run_micro_batch(4 * (2 * step + micro_batch), micro_batch == 0);
    }
    optim::clip_grad_norm(net.parameters(), 0.5);
    for (const test::Shard& shard : test::shards_of(net)) all.push_back(shard);
    adam.step();
    adam.zero_grad();
  }
  return all;
}

std::vector<std::string> compare(World& world, const Script& script, Set set, bool communicate) {
  return test::compare_all(
      world,
      [&](const test::Setting& setting) {
        Net net;
        if (script.starts_frozen) net.c.set_requires_grad(false);
        Sharding& sharding = dist::shard(net, {.mesh = test::mesh_for(world, setting),
                                               .strategy = setting.strategy,
                                               .units = every<nn::Linear>(),
                                               .bucket_bytes = 64});
        nn::materialize(net, cpu(), 3);
        return train(net, script, set, [&](int64_t sample, bool is_followed) {
          std::optional<Accumulation> more;
          if (is_followed) more.emplace(sharding, communicate);
          sum(net(input(sample + world.rank()))).backward();
        });
      },
      [&] {
        Net net;
        if (script.starts_frozen) net.c.set_requires_grad(false);
        nn::materialize(net, cpu(), 3);
        return train(net, script, set, [&](int64_t sample, bool) {
          for (int rank = 0; rank < world.size(); ++rank)
            sum(net(input(sample + rank))).backward(Variable(Tensor::scalar(1.0f / world.size())));
        });
      });
}

}  // namespace

TEST_CASE("freezing: a model frozen and unfrozen after sharding trains as on one device") {
  const auto check = [](int ranks, const std::vector<Set>& sets, bool communicate) {
    test::require_no_problems(ranks, [&](World& world) {
      std::vector<std::string> problems;
      for (const Script& script : scripts)
        for (const Set set : sets)
          for (const std::string& problem : compare(world, script, set, communicate))
            problems.push_back(text(script.name,
                                    set == by_module ? ", module" : ", Variables or local shards",
                                    communicate ? ", communicated: " : ": ", problem));
      return problems;
    });
  };
  check(2, {by_module, by_variable, by_local_shard}, false);
  check(2, {by_variable}, true);
  check(4, {by_local_shard}, false);
}

TEST_CASE("freezing: a model with a parameter frozen after sharding is destroyed without an error") {
  test::require_no_problems(2, [](World& world) {
    for (const Strategy strategy : strategies) {
      Net net;
      dist::shard(net, {.mesh = Mesh(world), .strategy = strategy, .units = every<nn::Linear>()});
      nn::materialize(net, cpu(), 3);
      net.b.weight.set_requires_grad(false);
    }
    return std::vector<std::string>();
  });
}
