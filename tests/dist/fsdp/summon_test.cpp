#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "autograd/grad_mode.h"
#include "dist/fsdp/engine.h"
#include "dist/fsdp/shard.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "optim/rules/sgd.h"
#include "tests/dist/fsdp/rank_threads.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

struct Model : nn::Layer<Model> {
  nn::ModuleList<nn::Linear>& layers = add<nn::ModuleList<nn::Linear>>("layers");
  Variable& scale = parameter("scale", {5}, init::ones());
  Variable& offset = buffer("offset", {5}, init::constant(0.5));
  Model() {
    for (int i = 0; i < 3; ++i) layers.push({.in = 5, .out = 5});
  }
  Variable forward(const Variable& x) { return layers(x) * scale + offset; }
};

std::vector<float> values_of(const Tensor& x) {
  const Tensor flat = x.contiguous();
  return {flat.data<float>(), flat.data<float>() + flat.numel()};
}

std::vector<std::vector<float>> full_state(const nn::Module& model) {
  std::vector<std::vector<float>> all;
  for (const NamedTensor& entry : model.state_dict()) all.push_back(values_of(entry.tensor));
  return all;
}

Tensor input() {
  Tensor x = Tensor::empty({4, 5}, f32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i % 7) - 3;
  return x;
}

template <class Body>
void with_each_strategy(int ranks, Body body) {
  for (const Strategy strategy : dist::flat_strategies) {
    CAPTURE(name_of(strategy));
    on_ranks<int>(ranks, [&](World& world) {
      Mesh mesh(world);
      body(world, ShardOptions{.mesh = mesh, .strategy = strategy, .units = every<nn::Linear>()});
      return 0;
    });
  }
}

}  // namespace

TEST_CASE("summon: full parameters have the values of one device, and state_dict returns them") {
  Model single;
  nn::materialize(single, cpu(), 3);
  with_each_strategy(3, [&](World&, ShardOptions options) {
    Model model;
    Sharding& sharding = dist::shard(model, options);
    nn::materialize(model, cpu(), 3);
    if (options.strategy != Strategy::no_shard)
      CHECK_THROWS_WITH_AS(model.state_dict(), doctest::Contains("SummonFullParams"), ConfigError);
    {
      const SummonFullParams full(sharding);
      CHECK(full_state(model) == full_state(single));
      CHECK(values_of(model(Variable(input())).value()) == values_of(single(Variable(input())).value()));
      CHECK_THROWS_AS(SummonFullParams(sharding, {}), ConfigError);
    }
    const NoGrad no_grad;
    CHECK(values_of(model(Variable(input())).value()) == values_of(single(Variable(input())).value()));
  });
}

TEST_CASE("summon: changed values are written back with write_back, and dropped without") {
  with_each_strategy(2, [](World&, ShardOptions options) {
    Model model;
    Sharding& sharding = dist::shard(model, options);
    nn::materialize(model, cpu(), 3);
    std::vector<float> before, doubled;
    {
      const SummonFullParams full(sharding, {.write_back = true});
      const Tensor weight = model.layers[1].weight.value();
      before = values_of(weight);
      for (int64_t i = 0; i < weight.numel(); ++i) weight.data<float>()[i] *= 2;
      doubled = values_of(weight);
    }
    if (options.strategy != Strategy::no_shard) {
      const SummonFullParams full(sharding);
      CHECK(values_of(model.layers[1].weight.value()) == doubled);
      model.layers[1].weight.value().zero();
    }
    const SummonFullParams full(sharding);
    CHECK(values_of(model.layers[1].weight.value()) == doubled);
    CHECK(doubled[3] == 2 * before[3]);
  });
}

TEST_CASE("summon: one unit only, by its module") {
  with_each_strategy(2, [](World&, ShardOptions options) {
    Model model, single, other;
    Sharding& sharding = dist::shard(model, options);
    nn::materialize(model, cpu(), 3);
    nn::materialize(single, cpu(), 3);
    {
      const SummonFullParams full(sharding, {.unit = &model.layers[2]});
      CHECK(values_of(model.layers[2].weight.value()) == values_of(single.layers[2].weight.value()));
      if (options.strategy == Strategy::full_shard)
        CHECK_THROWS_AS(model.layers[1].weight.value().raw_data(), StorageError);
    }
    CHECK_THROWS_AS(SummonFullParams(sharding, {.unit = &other.layers[2]}), ConfigError);
  });
}

TEST_CASE("summon: full tensors are written through state_dict") {
  Model source;
  nn::materialize(source, cpu(), 8);
  with_each_strategy(3, [&](World&, ShardOptions options) {
    options.precision.compute = bf16;
    Model model;
    Sharding& sharding = dist::shard(model, options);
    nn::materialize(model, cpu(), 3);
    {
      const SummonFullParams full(sharding, {.write_back = true});
      nn::StateDict state = model.state_dict();
      for (size_t i = 0; i < state.size(); ++i)
        if (state[i].tensor.dtype() == f32) state[i].tensor.copy_from(source.state_dict()[i].tensor);
    }
    const SummonFullParams full(sharding);
    CHECK(values_of(model.layers[0].weight.value()) == values_of(source.layers[0].weight.value()));
    CHECK(values_of(model.scale.value()) == values_of(source.scale.value()));
  });
}

TEST_CASE("sharding: a model that has values already keeps them") {
  Model single;
  nn::materialize(single, cpu(), 4);
  with_each_strategy(2, [&](World&, const ShardOptions& options) {
    Model model;
    nn::materialize(model, cpu(), 4);
    Sharding& sharding = dist::shard(model, options);
    const SummonFullParams full(sharding);
    CHECK(full_state(model) == full_state(single));
  });
}

TEST_CASE("sharding: evaluation between steps reads the new values, on every rank, and changes nothing") {
  with_each_strategy(2, [](World& world, const ShardOptions& options) {
    Model model, single;
    dist::shard(model, options);
    nn::materialize(model, cpu(), 3);
    nn::materialize(single, cpu(), 3);
    optim::SGD sgd(model.parameters(), {.lr = 0.01}), sgd_single(single.parameters(), {.lr = 0.01});
    for (int step = 0; step < 3; ++step) {
      for (int repeat = 0; repeat < 2; ++repeat) {
        const NoGrad no_grad;
        CHECK(values_of(model(Variable(input())).value()) == values_of(single(Variable(input())).value()));
      }
      sum(model(Variable(input()))).backward();
      sum(single(Variable(input()))).backward();
      sgd.step();
      sgd_single.step();
      sgd.zero_grad();
      sgd_single.zero_grad();
    }
    CHECK(world.size() == 2);
  });
}

TEST_CASE("sharding: ignored modules are not sharded, not averaged, and are listed") {
  with_each_strategy(2, [](World& world, ShardOptions options) {
    Model model;
    options.ignored = {&model.layers[1]};
    dist::shard(model, options);
    nn::materialize(model, cpu(), 3);
    const ParameterList list = model.parameters();
    CHECK(list.size() == 7);
    Variable loss = sum(model(Variable(input())));
    loss.backward(Variable(Tensor::scalar(static_cast<float>(world.rank()))));
    for (const NamedParameter& parameter : list)
      if (parameter.name == "layers.1.bias") {
        CHECK(!parameter.shard);
        CHECK(parameter.variable.shape() == Shape{5});
        CHECK((parameter.variable.grad().value().data<float>()[0] == 0.0f) == (world.rank() == 0));
      }
  });
}

TEST_CASE("sharding: half precision casts inputs and results, and keeps f32 values and buffers") {
  with_each_strategy(2, [](World&, ShardOptions options) {
    options.precision = {.compute = bf16, .output = f32};
    Model model;
    dist::shard(model, options);
    nn::materialize(model, cpu(), 3);
    CHECK(model.offset.dtype() == f32);
    const Variable y = model(Variable(input()));
    CHECK(y.dtype() == f32);
    CHECK(model.scale.dtype() == bf16);
    sum(y).backward();
    for (const NamedParameter& parameter : model.parameters()) {
      CHECK(parameter.values().dtype() == f32);
      CHECK(parameter.variable.grad().dtype() == f32);
    }
  });
}

TEST_CASE("sharding: buffers are cast to Precision::buffer only") {
  with_each_strategy(2, [](World&, ShardOptions options) {
    options.precision = {.compute = bf16, .buffer = f16};
    Model model;
    dist::shard(model, options);
    nn::materialize(model, cpu(), 3);
    CHECK(model.offset.dtype() == f16);
    CHECK(model.offset.value().narrow(0, 0, 1).item() == 0.5);
  });
}

TEST_CASE("sharding: options that do not suit are errors that give the reason") {
  on_ranks<int>(4, [](World& world) {
    Mesh flat(world), grid(world, {{"replica", 2}, {"shard", 2}}), lines(world, {{"pipeline", 4}});
    const auto attempt = [](ShardOptions options) {
      Model model;
      dist::shard(model, std::move(options));
    };
    CHECK_THROWS_WITH_AS(attempt({.mesh = grid}), doctest::Contains("hybrid_shard"), ConfigError);
    CHECK_THROWS_WITH_AS(attempt({.mesh = lines}), doctest::Contains("'shard'"), ConfigError);
    CHECK_THROWS_AS(attempt({.mesh = flat, .alignment = 0}), ConfigError);
    CHECK_THROWS_AS(attempt({.mesh = flat, .bucket_bytes = 0}), ConfigError);
    CHECK_THROWS_AS(attempt({.mesh = flat, .gathers_in_flight = 0}), ConfigError);
    CHECK_THROWS_AS(attempt({.mesh = flat, .messages = {.gather_elements = 0}}), ConfigError);
    CHECK_THROWS_AS(attempt({.mesh = flat, .messages = {.reduce_elements = 0}}), ConfigError);
    CHECK_THROWS_AS(attempt({.mesh = flat, .messages = {.prefetch_elements = -1}}), ConfigError);
    CHECK_THROWS_AS(attempt({.mesh = flat, .precision = {.compute = f64}}), ConfigError);
    CHECK_THROWS_AS(attempt({.mesh = flat, .precision = {.reduce = i64}}), ConfigError);
    Model model;
    dist::shard(model, {.mesh = flat});
    CHECK_THROWS_AS(dist::shard(model, {.mesh = flat}), ConfigError);
    CHECK_THROWS_WITH_AS(model.parameters(), doctest::Contains("materialize"), ConfigError);
    CHECK_THROWS_WITH_AS(model(Variable(input())), doctest::Contains("materialize"), ConfigError);
    CHECK_THROWS_AS(model.to(f64), ConfigError);
    CHECK_THROWS_AS(nn::use_mixed_precision(model, bf16), ConfigError);
    Model mixed;
    nn::materialize(mixed, cpu(), 3);
    nn::use_mixed_precision(mixed, bf16);
    CHECK_THROWS_WITH_AS(dist::shard(mixed, {.mesh = flat}), doctest::Contains("mixed precision"),
                         ConfigError);
    return 0;
  });
}
