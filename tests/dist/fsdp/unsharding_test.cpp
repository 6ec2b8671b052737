// Backwards that do not begin at a unit's results: losses on intermediate results of a unit, and split
// backwards. And the holds that keep a unit gathered, until the last one ends.

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/recompute/checkpoint.h"
#include "autograd/split_backward.h"
#include "dist/comm/interface/ledger.h"
#include "nn/layers/containers.h"
#include "nn/materialize.h"
#include "optim/rules/sgd.h"
#include "tensor/memory/account.h"
#include "tests/dist/fsdp/against_one_device.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

constexpr int64_t C = 6;

/// A layer that keeps its intermediate result.
struct Stage : nn::Layer<Stage> {
  Variable& gain = parameter("gain", {C}, init::normal(0.3, 1));
  Variable& first = parameter("first", {C, C}, init::normal(0.4));
  Variable& second = parameter("second", {C, C}, init::normal(0.4));
  Variable& bias = parameter("bias", {C}, init::normal(0.2));
  Variable inner;
  bool checkpoints = false;
  std::string kind() const override { return "Stage"; }
  Variable forward(const Variable& x) {
    const auto compute = [this](const Variable& in) { return gelu(linear(in * gain, first, {})); };
    inner = checkpoints ? checkpoint(compute, x) : compute(x);
    return x + linear(inner, second, bias);
  }
};

struct Stages : nn::Layer<Stages> {
  Stage& a = add<Stage>("a");
  Stage& b = add<Stage>("b");
  Stage& c = add<Stage>("c");
  Variable& scale = parameter("scale", {C}, init::normal(0.3, 1));
  Variable hidden;
  Variable forward(const Variable& x) {
    hidden = b(a(x));
    return c(hidden) * scale;
  }
};

Variable input(int64_t sample) {
  const Tensor x = Tensor::empty({2, C}, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>((sample * 7 + i * 5) % 11) / 5 - 1;
  return Variable::leaf(x);
}

Variable square_sum(const Variable& x) {
  return sum(x * x);
}

enum class BackwardKind {
  result,
  inside,
  inside_and_result,
  hidden,
  hidden_then_result,
  split,
  split_inside,
  split_hidden
};
constexpr BackwardKind backward_kinds[] = {BackwardKind::inside,      BackwardKind::inside_and_result,
                                           BackwardKind::hidden,      BackwardKind::hidden_then_result,
                                           BackwardKind::split,       BackwardKind::split_inside,
                                           BackwardKind::split_hidden};

void split(const Variable& loss, const Variable& at) {
  SplitBackward backward({&loss, 1});
  backward.input_gradients({&at, 1});
  backward.weight_gradients();
}

void run(Stages& model, BackwardKind kind, int64_t sample, float factor) {
  const Variable x = input(sample);
  const Variable result = square_sum(model(x)) * factor;
  const Variable inside = square_sum(model.b.inner) * factor, hidden = square_sum(model.hidden) * factor;
  switch (kind) {
    case BackwardKind::result:
      return result.backward();
    case BackwardKind::inside:
      return inside.backward();
    case BackwardKind::inside_and_result:
      return (inside + result).backward();
    case BackwardKind::hidden:
      return hidden.backward();
    case BackwardKind::hidden_then_result:
      hidden.backward({.retain_graph = true});
      return result.backward();
    case BackwardKind::split:
      return split(result, x);
    case BackwardKind::split_inside:
      return split(inside, x);
    case BackwardKind::split_hidden:
      return split(result, model.hidden);
  }
}

ShardOptions options_for(World& world, const test::Setting& setting) {
  return {.mesh = test::mesh_for(world, setting), .strategy = setting.strategy, .units = every<Stage>()};
}

/// Compares two micro-batches of a kind, the first without communication, with one device.
std::vector<std::string> compare(World& world, BackwardKind kind, bool freeze, bool checkpoints) {
  const auto prepare = [&](Stages& model) {
    for (Stage* stage : {&model.a, &model.b, &model.c}) stage->checkpoints = checkpoints;
    if (!freeze) return;
    model.b.set_requires_grad(false);
    model.a.first.set_requires_grad(false);
  };
  return test::compare_all(
      world,
      [&](const test::Setting& setting) {
        Stages model;
        prepare(model);
        Sharding& sharding = dist::shard(model, options_for(world, setting));
        nn::materialize(model, cpu(), 3);
        {
          const NoSync no_sync(sharding);
          run(model, kind, world.rank(), 1);
        }
        run(model, kind, 4 + world.rank(), 1);
        return test::shards_of(model);
      },
      [&] {
        Stages model;
        prepare(model);
        nn::materialize(model, cpu(), 3);
        for (int sample = 0; sample < 8; ++sample)
          if (sample % 4 < world.size()) run(model, kind, sample, 1.0f / static_cast<float>(world.size()));
        return test::shards_of(model);
      });
}

int64_t gathered() {
  return current_account()->count(MemoryCategory::communication).current;
}

}  // namespace

TEST_CASE(
    "unsharding: losses on intermediate results, and split backwards, have the gradients of one device") {
  for (const int ranks : {2, 4})
    for (const bool freeze : {false, true})
      test::require_no_problems(ranks, [&](World& world) {
        std::vector<std::string> problems;
        for (const BackwardKind kind : backward_kinds)
          for (const bool checkpoints : {false, true})
            for (const std::string& problem : compare(world, kind, freeze, checkpoints))
              problems.push_back(
                  text("kind ", static_cast<int>(kind), checkpoints ? ", checkpointed: " : ": ", problem));
        return problems;
      });
}

TEST_CASE("unsharding: such backwards leave no full parameters and no full gradient") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : {Strategy::shard_grad_op, Strategy::full_shard})
      for (const BackwardKind kind : backward_kinds) {
        Stages model;
        dist::shard(model, options_for(world, {strategy}));
        nn::materialize(model, cpu(), 3);
        run(model, kind, world.rank(), 1);
        if (gathered() != 0)
          problems.push_back(text(strategy, ", ", static_cast<int>(kind), ": ", gathered()));
        model.parameters().zero_grad();
        const Variable x = input(0);
        const Variable loss = square_sum(model(x));
        SplitBackward halves({&loss, 1});
        halves.input_gradients({&x, 1});
        if (gathered() != 0)
          problems.push_back(text(strategy, ": ", gathered(), " bytes between the halves"));
        halves.weight_gradients();
        if (gathered() != 0) problems.push_back(text(strategy, ": ", gathered(), " bytes after both"));
      }
    return problems;
  });
}

TEST_CASE(
    "unsharding: holds of a schedule, of forward and of backward are counted; the last one frees the bytes") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    const auto expect = [&](const char* what, int64_t found, int64_t expected) {
      if (found != expected) problems.push_back(text(what, ": ", found, ", expected ", expected));
    };
    Stages model;
    Sharding& sharding = dist::shard(model, options_for(world, {}));
    nn::materialize(model, cpu(), 3);
    Ledger& ledger = world.communicator().ledger();
    const auto sent = [&ledger] { return ledger.total(Traffic::parameters).bytes; };
    const int64_t stage = 4 * 128, root = 4 * 32;  // of 16 + 48 + 48 + 6 elements, and of 6
    int64_t before = sent();
    run(model, BackwardKind::result, 0, 1);
    const int64_t step = sent() - before;
    expect("a step", step, (2 * 3 * stage + root) / 2);
    before = sent();
    {
      const Unsharded held(sharding, &model.b);
      expect("held", gathered(), stage);
      const Unsharded again(sharding, &model.b);
      const Variable loss = square_sum(model(input(1)));
      expect("after forward", gathered(), stage + root);
      loss.backward();
      expect("after backward", gathered(), stage);
      run(model, BackwardKind::inside, 2, 1);
      run(model, BackwardKind::split, 2, 1);
      expect("after others", gathered(), stage);
    }
    expect("released", gathered(), 0);
    before = sent();
    {
      const Unsharded held(sharding);
      expect("all held", gathered(), 3 * stage + root);
      expect("all gathered once", sent() - before, (3 * stage + root) / 2);
      run(model, BackwardKind::result, 0, 1);
      expect("and not again", sent() - before, (3 * stage + root) / 2);
    }
    expect("all released", gathered(), 0);
    try {
      const Unsharded none(sharding, &model.at("a"));
      Stage other_model;
      const Unsharded other(sharding, &other_model);
      problems.push_back("a module of another model was held");
    } catch (const ConfigError&) {
    }
    expect("after an error", gathered(), 0);
    return problems;
  });
}

TEST_CASE("unsharding: after an optimizer's step under a hold, forward computes with the new values") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::vector<test::Shard>> results;
    for (const bool holds : {false, true}) {
      Stages model;
      Sharding& sharding = dist::shard(model, options_for(world, {}));
      nn::materialize(model, cpu(), 3);
      optim::SGD sgd(model.parameters(), {.lr = 0.05});
      std::optional<Unsharded> held;
      if (holds) held.emplace(sharding);
      for (int step = 0; step < 3; ++step) {
        run(model, BackwardKind::result, world.rank() + 2 * step, 1);
        sgd.step();
        sgd.zero_grad();
      }
      results.push_back(test::shards_of(model));
    }
    return test::differences(results[1], results[0], 0);
  });
}

TEST_CASE("unsharding: a forward that throws holds nothing") {
  struct Broken : nn::Layer<Broken> {
    Stage& a = add<Stage>("a");
    Stage& b = add<Stage>("b");
    bool throws = false;
    Variable forward(const Variable& x) {
      const Variable h = a(x);
      if (throws) throw ValueError("in the root");
      return b(h);
    }
  };
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    Broken model;
    dist::shard(model, options_for(world, {}));
    nn::materialize(model, cpu(), 3);
    HookHandle hook = model.b.register_forward_pre_hook(
        [](nn::Module&, const nn::CallVariables&) { throw ValueError("in a unit"); });
    for (const bool in_root : {false, true}) {
      model.throws = in_root;
      try {
        model(input(0));
        problems.push_back("nothing was thrown");
      } catch (const ValueError&) {
      }
      if (gathered() != 0) problems.push_back(text(gathered(), " bytes are gathered"));
    }
    hook.remove();
    model.throws = false;
    sum(model(input(0))).backward();
    if (gathered() != 0) problems.push_back(text(gathered(), " bytes are gathered after a step"));
    return problems;
  });
}
