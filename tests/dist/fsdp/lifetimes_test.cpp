// Scopes, lists and graphs that outlive the sharded model.

#include <optional>

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/reduction.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/rules/sgd.h"
#include "tests/dist/fsdp/against_one_device.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

struct Net : nn::Layer<Net> {
  nn::Linear& a = add<nn::Linear>("a", {.in = 5, .out = 5});
  nn::Linear& b = add<nn::Linear>("b", {.in = 5, .out = 5});
  Variable forward(const Variable& x) { return b(tanh(a(x))); }
};

Variable input() {
  return Variable(Tensor::scalar(1.0f).expand({2, 5}).clone());
}

Sharding& shard_net(Net& net, World& world, Strategy strategy) {
  Sharding& sharding =
      dist::shard(net, {.mesh = Mesh(world), .strategy = strategy, .units = every<nn::Linear>()});
  nn::materialize(net, cpu(), 3);
  return sharding;
}

}  // namespace

TEST_CASE("lifetimes: scopes of a sharded model may end after the model") {
  test::require_no_problems(2, [](World& world) {
    for (const Strategy strategy : dist::flat_strategies)
      for (int scope = 0; scope < 5; ++scope) {
        std::optional<Unsharded> gathered;
        std::optional<SummonFullParams> full;
        std::optional<NoSync> no_sync;
        {
          Net net;
          Sharding& sharding = shard_net(net, world, strategy);
          if (scope == 0) gathered.emplace(sharding);
          if (scope == 1) gathered.emplace(sharding, &net.b);
          if (scope == 2) full.emplace(sharding);
          if (scope == 3) full.emplace(sharding, SummonOptions{.unit = &net.a, .write_back = true});
          if (scope == 4) no_sync.emplace(sharding);
        }
        gathered.reset();
        full.reset();
        no_sync.reset();
      }
    return std::vector<std::string>();
  });
}

TEST_CASE("lifetimes: a list that outlives the model clears its gradients, and its norm is an error") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : dist::flat_strategies) {
      std::optional<optim::SGD> sgd;
      {
        Net net;
        shard_net(net, world, strategy);
        sum(net(input())).backward();
        sgd.emplace(net.parameters(), optim::SGD::Options{.lr = 0.1});
      }
      const auto norm = [&] { optim::clip_grad_norm(sgd->parameters(), 1.0); };
      std::string message;
      try {
        norm();
      } catch (const ConfigError& error) {
        message = error.what();
      }
      if (message.find("was destroyed") == std::string::npos) problems.push_back("'" + message + "'");
      sgd->zero_grad();
      for (const NamedParameter& parameter : sgd->parameters())
        if (parameter.variable.grad().defined()) problems.push_back("a gradient of " + parameter.name);
    }
    return problems;
  });
}

TEST_CASE("lifetimes: the backward of a graph that outlives its sharded model is an error that says so") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : dist::flat_strategies) {
      Variable loss;
      {
        Net net;
        shard_net(net, world, strategy);
        loss = sum(net(input()));
      }
      std::string message;
      try {
        loss.backward();
      } catch (const StorageError& error) {
        message = error.what();
      }
      for (const char* phrase : {"unit '", "'b.bias'", "sharded model was destroyed", "keep the model"})
        if (message.find(phrase) == std::string::npos)
          problems.push_back(text(strategy, ": no \"", phrase, "\" in '", message, "'"));
    }
    return problems;
  });
}
