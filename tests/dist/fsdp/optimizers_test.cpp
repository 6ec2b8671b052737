// Every elementwise optimizer, and Lamb, trains as on one device under every strategy; those that read full
// parameters do so under no_shard, and refuse shards.

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/reduction.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/rules/adadelta.h"
#include "optim/rules/adafactor.h"
#include "optim/rules/adagrad.h"
#include "optim/rules/adamax.h"
#include "optim/rules/lamb.h"
#include "optim/rules/lbfgs.h"
#include "optim/rules/lion.h"
#include "optim/rules/muon.h"
#include "optim/rules/nadam.h"
#include "optim/rules/radam.h"
#include "optim/rules/rmsprop.h"
#include "optim/rules/sgd.h"
#include "tests/dist/fsdp/against_one_device.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

constexpr int64_t C = 5;

struct Net : nn::Layer<Net> {
  nn::Linear& a = add<nn::Linear>("a", {.in = C, .out = C});
  nn::Linear& b = add<nn::Linear>("b", {.in = C, .out = C});
  Variable forward(const Variable& x) { return b(gelu(a(x))); }
};

Variable input(int64_t sample) {
  const Tensor x = Tensor::empty({2, C}, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>((sample * 7 + i * 5) % 11) / 5 - 1;
  return Variable(x);
}

ParameterList matrices(const Net& net) {
  return net.parameters().where([](const NamedParameter& p) { return p.full_shape().ndim() == 2; });
}

/// Three steps; `add_gradients(step)` runs forward and backward.
template <class Optimizer, class AddGradients>
std::vector<test::Shard> train(Net& net, typename Optimizer::Options options,
                               const AddGradients& add_gradients) {
  Optimizer optimizer(std::is_same_v<Optimizer, optim::Muon> ? matrices(net) : net.parameters(), options);
  for (int step = 0; step < 3; ++step) {
    add_gradients(step);
    optimizer.step();
    net.parameters().zero_grad();
  }
  return test::shards_of(net);
}

/// Problems of one optimizer under the strategies for which `works` holds; under the others it must throw.
template <class Optimizer, class Works>
std::vector<std::string> check(World& world, typename Optimizer::Options options, const Works& works) {
  Net single;
  nn::materialize(single, cpu(), 3);
  const std::vector<test::Shard> expected = train<Optimizer>(single, options, [&](int step) {
    for (int rank = 0; rank < world.size(); ++rank)
      sum(single(input(step + 10 * rank))).backward(Variable(Tensor::scalar(1.0f / world.size())));
  });
  std::vector<std::string> problems;
  for (const test::Setting& setting : test::settings_for(world)) {
    Net net;
    dist::shard(
        net,
        {.mesh = test::mesh_for(world, setting), .strategy = setting.strategy, .units = every<nn::Linear>()});
    nn::materialize(net, cpu(), 3);
    std::string error;
    std::vector<std::string> found;
    try {
      const auto trained = train<Optimizer>(
          net, options, [&](int step) { sum(net(input(step + 10 * world.rank()))).backward(); });
      found = test::differences(trained, expected, 1e-4f);
    } catch (const ConfigError& thrown) {
      error = thrown.what();
    }
    const bool refused =
        error.find("this rank has a shard of parameter 'a.weight' (5, 5)") != std::string::npos;
    if (works(setting.strategy) ? !error.empty() : !refused) found.push_back("error: " + error);
    for (const std::string& problem : found) problems.push_back(text(to_string(setting), ": ", problem));
  }
  return problems;
}

template <class Optimizer>
void check_optimizer(typename Optimizer::Options options, bool elementwise) {
  test::require_no_problems(2, [&](World& world) {
    return check<Optimizer>(world, options,
                            [&](Strategy strategy) { return elementwise || strategy == Strategy::no_shard; });
  });
}

}  // namespace

TEST_CASE("optimizers on ranks: elementwise ones train as on one device under every strategy") {
  check_optimizer<optim::SGD>({.lr = 0.05, .momentum = 0.9}, true);
  check_optimizer<optim::RMSprop>({.eps = 1e-2, .momentum = 0.5, .centered = true}, true);
  check_optimizer<optim::Adagrad>({.eps = 1e-2}, true);
  check_optimizer<optim::Adadelta>({.eps = 1e-2}, true);
  check_optimizer<optim::Adamax>({.eps = 1e-2}, true);
  check_optimizer<optim::NAdam>({.eps = 1e-2}, true);
  check_optimizer<optim::RAdam>({.eps = 1e-2}, true);
  check_optimizer<optim::Lion>({.lr = 0.01, .weight_decay = 0.1}, true);
}

TEST_CASE("optimizers on ranks: Lamb's norms are those of full parameters under every strategy") {
  for (const int ranks : {2, 3, 4})
    test::require_no_problems(ranks, [&](World& world) {
      return check<optim::Lamb>(world, {.lr = 0.01, .eps = 1e-2, .weight_decay = 0.1},
                                [](Strategy) { return true; });
    });
}

TEST_CASE("optimizers on ranks: those of full parameters train under no_shard and refuse shards by name") {
  check_optimizer<optim::Adafactor>({}, false);
  check_optimizer<optim::Muon>({.lr = 0.01}, false);
}

TEST_CASE("optimizers on ranks: LBFGS is refused under every strategy") {
  test::require_no_problems(2, [&](World& world) {
    std::vector<std::string> problems;
    for (const test::Setting& setting : test::settings_for(world)) {
      Net net;
      dist::shard(net, {.mesh = test::mesh_for(world, setting),
                        .strategy = setting.strategy,
                        .units = every<nn::Linear>()});
      nn::materialize(net, cpu(), 3);
      try {
        optim::LBFGS lbfgs(net.parameters());
        problems.push_back(to_string(setting) + ": no error");
      } catch (const ConfigError&) {
      }
    }
    return problems;
  });
}
