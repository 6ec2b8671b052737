// A backward that an exception ends keeps the gradients of the backwards before it, as on one device, and an
// optimizer receives no gradient that was not averaged.

#include <functional>
#include <stdexcept>

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "autograd/grad_mode.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/rules/sgd.h"
#include "tests/dist/fsdp/against_one_device.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

constexpr int64_t C = 5;

struct Net : nn::Layer<Net> {
  nn::Linear& a = add<nn::Linear>("a", {.in = C, .out = C, .weight_init = init::normal(0.5)});
  nn::Linear& b = add<nn::Linear>("b", {.in = C, .out = C, .weight_init = init::normal(0.5)});
  Variable forward(const Variable& x) { return b(tanh(a(x))); }
};

Variable input(int64_t sample) {
  const Tensor x = Tensor::empty({2, C}, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>((sample * 7 + i * 5) % 11) / 5 - 1;
  return x;
}

Variable loss_of(Net& model, int64_t sample) {
  const Variable y = model(input(sample));
  return sum(y * y);
}

/// A backward of the graph of `loss`, or of a new one, that fails before any gradient of a parameter.
using Fail = std::function<void(Net&, const Variable& loss, int64_t sample)>;

void run_again(Net&, const Variable& loss, int64_t) {
  CHECK_THROWS_AS(loss.backward(), AutogradError);
}

void fail_in_new_graph(Net& model, const Variable&, int64_t sample) {
  const Variable y = model(input(sample));
  const HookHandle hook =
      y.register_hook([](const Variable&) -> Variable { throw std::runtime_error("a broken hook"); });
  CHECK_THROWS_AS(sum(y).backward(), std::runtime_error);
}

/// Fails where the gradient of b is complete and that of a is not.
void fail_between_units(Net& model, int64_t sample) {
  const HookHandle hook = model.a.register_full_backward_pre_hook(
      [](nn::Module&, std::vector<Variable>&) { throw std::runtime_error("a broken hook"); });
  CHECK_THROWS_AS(loss_of(model, sample).backward(), std::runtime_error);
}

/// Steps with a failure after their first backwards, and with or without a backward after it. The gradients
/// of every step, and the parameters, of `ranks` ranks' samples from `first_rank` on.
std::vector<test::Shard> train(Net& model, const Fail& fail, bool continues, int first_rank, int ranks) {
  optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  const float factor = 1.0f / static_cast<float>(ranks);
  std::vector<test::Shard> seen;
  for (int step = 0; step < 3; ++step) {
    Variable loss;
    for (int rank = 0; rank < ranks; ++rank) {
      loss = loss_of(model, 4 * step + first_rank + rank) * factor;
      loss.backward();
    }
    if (step < 2) fail(model, loss, step);
    if (continues)
      for (int rank = 0; rank < ranks; ++rank)
        (loss_of(model, 4 * step + 2 + first_rank + rank) * factor).backward();
    for (const test::Shard& shard : test::shards_of(model)) seen.push_back(shard);
    sgd.step();
    sgd.zero_grad();
  }
  for (const test::Shard& shard : test::shards_of(model)) seen.push_back(shard);
  return seen;
}

}  // namespace

TEST_CASE("failed backward: gradients of earlier backwards stay, as on one device, under every strategy") {
  for (const int ranks : {2, 4})
    for (const Fail& fail : {Fail(run_again), Fail(fail_in_new_graph)})
      for (const bool continues : {false, true})
        test::require_no_problems(ranks, [&](World& world) {
          return test::compare_all(
              world,
              [&](const test::Setting& setting) {
                Net model;
                dist::shard(model, {.mesh = test::mesh_for(world, setting),
                                    .strategy = setting.strategy,
                                    .units = every<nn::Linear>()});
                nn::materialize(model, cpu(), 3);
                return train(model, fail, continues, world.rank(), 1);
              },
              [&] {
                Net model;
                nn::materialize(model, cpu(), 3);
                return train(model, fail, continues, 0, world.size());
              });
        });
}

TEST_CASE("failed backward: no gradient of one rank alone reaches an optimizer, with one bucket or several") {
  for (const Strategy strategy : {Strategy::no_shard, Strategy::shard_optim})
    for (const int64_t bucket_bytes : {8, 1 << 20})
      for (const bool is_first : {false, true})
        test::require_no_problems(2, [&](World& world) {
          Net model;
          dist::shard(model, {.mesh = Mesh(world),
                              .strategy = strategy,
                              .units = every<nn::Linear>(),
                              .bucket_bytes = bucket_bytes});
          nn::materialize(model, cpu(), 3);
          if (!is_first) loss_of(model, world.rank()).backward();
          const std::vector<test::Shard> before = test::shards_of(model);
          fail_between_units(model, 2 + world.rank());
          return test::differences(test::shards_of(model), before, 0);
        });
}

TEST_CASE("failed backward: a sharded model that a hook makes and destroys ends with its backward") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : dist::flat_strategies)
      for (const bool fails : {false, true}) {
        const Variable x = Variable::leaf(input(0).value());
        const Variable y = x * 2.0f;
        const HookHandle hook = y.register_hook([&](const Variable& gradient) {
          const EnableGrad enable_grad;
          Net inner;
          dist::shard(inner, {.mesh = Mesh(world), .strategy = strategy, .units = every<nn::Linear>()});
          nn::materialize(inner, cpu(), 3);
          if (fails) fail_between_units(inner, world.rank());
          if (!fails) loss_of(inner, world.rank()).backward();
          return gradient;
        });
        sum(y).backward();
        if (!x.grad().defined()) problems.push_back(text(strategy, ": no gradient"));
      }
    return problems;
  });
}
