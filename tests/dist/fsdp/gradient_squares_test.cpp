// Squares of gradients that are summed as reductions end. The norm has the bits that it has without them.

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "dist/fsdp/engine.h"
#include "dist/fsdp/shard.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "tensor/ops/training/multi_tensor.h"
#include "tests/dist/fsdp/on_threads.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

constexpr int64_t C = 75;  // weights of more than a chunk of 4096 elements, cut within it

struct Stage : nn::Layer<Stage> {
  Variable& weight = parameter("weight", {C, C}, init::normal(0.4));
  Variable& bias = parameter("bias", {C}, init::normal(0.2));
  Variable& unused = parameter("unused", {3}, init::normal(0.2));
  Variable forward(const Variable& x) { return gelu(linear(x, weight, bias)); }
};

struct Tower : nn::Layer<Tower> {
  Stage& a = add<Stage>("a");
  Stage& b = add<Stage>("b");
  Variable forward(const Variable& x) { return b(a(x)); }
};

void backward(Tower& model, int64_t sample) {
  const Tensor x = Tensor::empty({2, C}, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>((sample * 7 + i * 5) % 11) / 5 - 1;
  sum(model(Variable(x))).backward();
}

struct Setting {
  Strategy strategy = Strategy::full_shard;
  int replicas = 1;
  int64_t bucket_bytes = 1 << 20;
  std::optional<DType> reduce = {};
};

/// The ranges of this rank's gradients that the norm sums, but the empty ones.
std::vector<Tensor> ranges_of(Sharding& sharding, const ParameterList& list) {
  std::vector<Tensor> ranges;
  for (const NamedParameter& parameter : list) {
    if (!parameter.grad().defined()) continue;
    const Tensor gradient = parameter.grad().value().view({-1});
    if (sharding.engine().traits().shards_optimizer) {
      if (gradient.numel() > 0) ranges.push_back(gradient);
      continue;
    }
    const Sharding::Engine::Place* place = sharding.engine().find(parameter.variable.impl().get());
    for (int shard = 0; shard < place->flat->layout().shards(); ++shard) {
      const FlatLayout::Range range = place->flat->layout().range(place->index, shard);
      if (range.numel() > 0) ranges.push_back(gradient.narrow(0, range.begin, range.numel()));
    }
  }
  return ranges;
}

std::vector<std::string> problems_of(World& world, const Setting& setting) {
  std::vector<std::string> problems;
  const auto expect = [&](bool holds, const std::string& what) {
    if (!holds)
      problems.push_back(text(setting.strategy, ", replicas ", setting.replicas, ", buckets ",
                              setting.bucket_bytes, ": ", what));
  };
  Tower model;
  ShardOptions options{.mesh = setting.replicas > 1
                                   ? Mesh(world, {{"replica", setting.replicas}, {"shard", -1}})
                                   : Mesh(world),
                       .strategy = setting.strategy,
                       .units = every<Stage>()};
  options.bucket_bytes = setting.bucket_bytes;
  options.precision.reduce = setting.reduce;
  Sharding& sharding = dist::shard(model, options);
  nn::materialize(model, cpu(), 3);
  const ParameterList list = model.parameters();
  const auto norm = [&] { return optim::grad_norm(list).item(); };
  const auto noted = [&] {
    size_t count = 0;
    for (const Tensor& range : ranges_of(sharding, list)) count += range.noted_squares().has_value();
    return count;
  };

  backward(model, world.rank());
  expect(noted() == 0, "squares that nothing asked for");
  const double once = norm();
  backward(model, world.rank() + 9);
  const double twice = norm();
  list.zero_grad();

  list.reducer()->take_squares(list, 1);
  backward(model, world.rank());
  const std::vector<Tensor> ranges = ranges_of(sharding, list);
  expect(noted() == ranges.size(), text(noted(), " of ", ranges.size(), " ranges have a note"));
  for (const Tensor& range : ranges) {
    const Tensor copy = range.clone();
    expect(range.noted_squares() == ops::power_sums({&copy, 1}, 2.0).item(), "another sum");
  }
  expect(norm() == once, "the norm differs");
  backward(model, world.rank() + 9);  // adds to the gradients
  expect(noted() == ranges.size(), "no squares of accumulated gradients");
  expect(norm() == twice, "the norm of accumulated gradients differs");

  // A note is read in place of the values, and forgotten when these change.
  for (const Tensor& range : ranges_of(sharding, list)) range.note_squares(0);
  expect(norm() == 0, "the norm reads the gradients again");
  const Tensor half = Tensor::scalar(0.5);
  for (const NamedParameter& parameter : list)
    if (parameter.grad().defined()) {
      const Tensor gradient = parameter.grad().value();
      ops::scale_in_place({&gradient, 1}, half);
    }
  expect(norm() == twice / 2, "the norm of scaled gradients differs");

  // A backward that an exception ends leaves nothing; nor do micro-batches that are not reduced.
  list.zero_grad();
  {
    HookHandle hook = model.a.weight.register_post_accumulate_grad_hook(
        [](const Variable&) { throw std::runtime_error("ended"); });
    try {
      backward(model, world.rank() + 5);
      problems.push_back("the hook was not called");
    } catch (const std::runtime_error&) {
    }
    hook.remove();
  }
  list.zero_grad();
  backward(model, world.rank());
  expect(norm() == once, "the norm after a backward that did not end differs");
  list.zero_grad();
  {
    const Accumulation accumulation(sharding, false);
    backward(model, world.rank());
  }
  backward(model, world.rank() + 9);
  expect(noted() == ranges_of(sharding, list).size(), "no squares of two micro-batches");
  const double both = norm();
  expect(std::abs(both - twice) < (setting.reduce ? 1e-2 : 1e-4) * twice,
         "the norm of two micro-batches differs");
  for (const Tensor& range : ranges_of(sharding, list)) range.bump_version();
  expect(norm() == both, "the norm of two micro-batches differs from that of their values");

  list.zero_grad();
  list.reducer()->take_squares(list, 0);
  backward(model, world.rank());
  expect(noted() == 0, "notes of an earlier backward");
  expect(norm() == once, "the norm of a later backward differs");
  return problems;
}

}  // namespace

TEST_CASE("gradient squares of shards: noted when a reduction ends, under every strategy") {
  for (const int ranks : {1, 2, 4})
    test::require_no_problems(ranks, [&](World& world) {
      std::vector<Setting> settings;
      for (const Strategy strategy : dist::flat_strategies) settings.push_back({strategy});
      settings.push_back({.strategy = Strategy::no_shard, .bucket_bytes = 1000});
      settings.push_back({.strategy = Strategy::no_shard, .reduce = bf16});
      settings.push_back({.strategy = Strategy::full_shard, .reduce = bf16});
      if (world.size() == 4)
        for (const Strategy strategy :
             {Strategy::no_shard, Strategy::hybrid_shard, Strategy::hybrid_shard_zero2})
          settings.push_back({strategy, 2});
      std::vector<std::string> problems;
      for (const Setting& setting : settings) {
        const std::vector<std::string> found = problems_of(world, setting);
        problems.insert(problems.end(), found.begin(), found.end());
      }
      return problems;
    });
}
