#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "dist/fsdp/shard.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/rules/sgd.h"
#include "tests/dist/fsdp/rank_threads.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

struct Model : nn::Layer<Model> {
  nn::Linear& a = add<nn::Linear>("a", {.in = 6, .out = 7});
  nn::Linear& b = add<nn::Linear>("b", {.in = 7, .out = 5});
  Variable forward(const Variable& x) { return b(a(x)); }
};

/// Parameters after three steps with gradients that stay in `reduce`, of inputs of all magnitudes down to
/// f16's smallest.
std::vector<float> trained(Strategy strategy, int replicas, DType reduce) {
  return on_ranks<std::vector<float>>(4, [&](World& world) {
    Model model;
    Sharding& sharding = dist::shard(
        model, {.mesh = Mesh(world, {{"replica", replicas}, {"shard", 4 / replicas}}),
                .strategy = strategy,
                .units = every<nn::Linear>(),
                .precision = {.compute = reduce, .reduce = reduce, .keep_low_precision_grads = true}});
    nn::materialize(model, cpu(), 3);
    optim::SGD sgd(model.parameters(), {.lr = 0.5});
    for (int step = 0; step < 3; ++step) {
      const Tensor x = Tensor::empty({3, 6}, f32);
      for (int64_t i = 0; i < x.numel(); ++i)
        x.data<float>()[i] = static_cast<float>((i * 37 + step * 5 + world.rank() * 11) % 23 - 11) *
                             std::ldexp(1.0f, static_cast<int>(-(i % 4) * 6));
      (sum(model(Variable(x))) * 0.01).backward();
      sgd.step();
      sgd.zero_grad();
    }
    const SummonFullParams full(sharding);
    std::vector<float> all;
    for (const NamedTensor& entry : model.state_dict())
      all.insert(all.end(), entry.tensor.data<float>(), entry.tensor.data<float>() + entry.tensor.numel());
    return all;
  })[0];
}

}  // namespace

TEST_CASE(
    "low precision: gradients that stay in f16 or bf16 have the bits of no_shard under every strategy") {
  for (const DType reduce : {f16, bf16}) {
    CAPTURE(reduce);
    const std::vector<float> flat = trained(Strategy::no_shard, 1, reduce);
    for (const Strategy strategy : {Strategy::shard_optim, Strategy::shard_grad_op, Strategy::full_shard}) {
      CAPTURE(name_of(strategy));
      CHECK(trained(strategy, 1, reduce) == flat);
    }
    const std::vector<float> grid = trained(Strategy::no_shard, 2, reduce);
    for (const Strategy strategy : {Strategy::hybrid_shard, Strategy::hybrid_shard_zero2}) {
      CAPTURE(name_of(strategy));
      CHECK(trained(strategy, 2, reduce) == grid);
    }
  }
}

TEST_CASE("low precision: the average of f16 gradients does not overflow if it is in the range of f16") {
  // Four gradients of 60000: their sum is beyond 65504, their average is not.
  for (const Strategy strategy : {Strategy::no_shard, Strategy::shard_optim, Strategy::full_shard}) {
    CAPTURE(name_of(strategy));
    const std::vector<double> gradients = on_ranks<double>(4, [&](World& world) {
      nn::Linear model({.in = 1, .out = 1});
      dist::shard(model, {.mesh = Mesh(world),
                          .strategy = strategy,
                          .precision = {.compute = f16, .reduce = f16, .keep_low_precision_grads = true}});
      nn::materialize(model, cpu(), 3);
      sum(model(Variable(Tensor::scalar(60000.0f).view({1, 1})))).backward();
      double found = 0;
      for (const NamedParameter& parameter : model.parameters())
        if (parameter.name == "weight" && parameter.variable.numel() > 0)
          found = parameter.variable.grad().value().select(0, 0).reshape({}).item();
      return found;
    });
    CHECK(*std::max_element(gradients.begin(), gradients.end()) == 60000.0);
  }
}
