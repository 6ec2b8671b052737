// Backwards that do not begin at a unit's results: losses on what a unit computed inside, and a backward in
// two halves. And what holds a unit gathered: each for itself, until the last gives it back.

#include "autograd/checkpoint.h"
#include "autograd/functions/activation.h"
#include "autograd/functions/arithmetic.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/split_backward.h"
#include "dist/comm/interface/ledger.h"
#include "nn/containers.h"
#include "nn/materialize.h"
#include "optim/sgd.h"
#include "tensor/memory/account.h"
#include "tests/dist/fsdp/against_one_device.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

constexpr int64_t C = 6;

/// A layer that shows what it computes on the way.
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

enum class Way {
  whole,
  inside,
  inside_and_result,
  hidden,
  hidden_then_result,
  split,
  split_inside,
  split_hidden
};
constexpr Way ways[] = {Way::inside, Way::inside_and_result, Way::hidden,      Way::hidden_then_result,
                        Way::split,  Way::split_inside,      Way::split_hidden};

void split(const Variable& loss, const Variable& at) {
  SplitBackward backward({&loss, 1});
  backward.input_gradients({&at, 1});
  backward.weight_gradients();
}

void run(Stages& model, Way way, int64_t sample, float factor) {
  const Variable x = input(sample);
  const Variable result = square_sum(model(x)) * factor;
  const Variable inside = square_sum(model.b.inner) * factor, hidden = square_sum(model.hidden) * factor;
  switch (way) {
    case Way::whole:
      return result.backward();
    case Way::inside:
      return inside.backward();
    case Way::inside_and_result:
      return (inside + result).backward();
    case Way::hidden:
      return hidden.backward();
    case Way::hidden_then_result:
      hidden.backward({.retain_graph = true});
      return result.backward();
    case Way::split:
      return split(result, x);
    case Way::split_inside:
      return split(inside, x);
    case Way::split_hidden:
      return split(result, model.hidden);
  }
}

ShardOptions options_for(World& world, const test::Setting& setting) {
  return {.mesh = test::mesh_for(world, setting), .strategy = setting.strategy, .units = every<Stage>()};
}

/// Two micro-batches of each way, the first without communication, and what was trained so.
std::vector<std::string> compare(World& world, Way way, bool freeze, bool checkpoints) {
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
          const NoSync more(sharding);
          run(model, way, world.rank(), 1);
        }
        run(model, way, 4 + world.rank(), 1);
        return test::pieces_of(model);
      },
      [&] {
        Stages model;
        prepare(model);
        nn::materialize(model, cpu(), 3);
        for (int sample = 0; sample < 8; ++sample)
          if (sample % 4 < world.size()) run(model, way, sample, 1.0f / static_cast<float>(world.size()));
        return test::pieces_of(model);
      });
}

int64_t gathered() {
  return current_account()->count(MemoryCategory::communication).current;
}

}  // namespace

TEST_CASE("unsharding: losses on what units compute inside, and split backwards, are one device's") {
  for (const int ranks : {2, 4})
    for (const bool freeze : {false, true})
      test::require_none(ranks, [&](World& world) {
        std::vector<std::string> problems;
        for (const Way way : ways)
          for (const bool checkpoints : {false, true})
            for (const std::string& problem : compare(world, way, freeze, checkpoints))
              problems.push_back(
                  text("way ", static_cast<int>(way), checkpoints ? ", checkpointed: " : ": ", problem));
        return problems;
      });
}

TEST_CASE("unsharding: such backwards leave nothing gathered and no gradient of the whole") {
  test::require_none(2, [](World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : {Strategy::shard_grad_op, Strategy::full_shard})
      for (const Way way : ways) {
        Stages model;
        dist::shard(model, options_for(world, {strategy}));
        nn::materialize(model, cpu(), 3);
        run(model, way, world.rank(), 1);
        if (gathered() != 0)
          problems.push_back(text(strategy, ", ", static_cast<int>(way), ": ", gathered()));
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
    "unsharding: a hold of a schedule, and forward's and backward's, are counted; bytes go with the last") {
  test::require_none(2, [](World& world) {
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
    run(model, Way::whole, 0, 1);
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
      run(model, Way::inside, 2, 1);
      run(model, Way::split, 2, 1);
      expect("after others", gathered(), stage);
    }
    expect("given back", gathered(), 0);
    before = sent();
    {
      const Unsharded held(sharding);
      expect("all held", gathered(), 3 * stage + root);
      expect("all gathered once", sent() - before, (3 * stage + root) / 2);
      run(model, Way::whole, 0, 1);
      expect("and not again", sent() - before, (3 * stage + root) / 2);
    }
    expect("all given back", gathered(), 0);
    try {
      const Unsharded none(sharding, &model.at("a"));
      Stage stranger;
      const Unsharded other(sharding, &stranger);
      problems.push_back("a stranger was held");
    } catch (const ConfigError&) {
    }
    expect("after an error", gathered(), 0);
    return problems;
  });
}

TEST_CASE("unsharding: held over an optimizer's step, the next forward computes with the new values") {
  test::require_none(2, [](World& world) {
    std::vector<std::vector<test::Piece>> ends;
    for (const bool holds : {false, true}) {
      Stages model;
      Sharding& sharding = dist::shard(model, options_for(world, {}));
      nn::materialize(model, cpu(), 3);
      optim::SGD sgd(model.parameters(), {.lr = 0.05});
      std::optional<Unsharded> held;
      if (holds) held.emplace(sharding);
      for (int step = 0; step < 3; ++step) {
        run(model, Way::whole, world.rank() + 2 * step, 1);
        sgd.step();
        sgd.zero_grad();
      }
      ends.push_back(test::pieces_of(model));
    }
    return test::differences(ends[1], ends[0], 0);
  });
}

TEST_CASE("unsharding: a forward that throws holds nothing") {
  struct Broken : nn::Layer<Broken> {
    Stage& a = add<Stage>("a");
    Stage& b = add<Stage>("b");
    bool throws = false;
    Variable forward(const Variable& x) {
      const Variable h = a(x);
      if (throws) throw ValueError("in the midst of the root");
      return b(h);
    }
  };
  test::require_none(2, [](World& world) {
    std::vector<std::string> problems;
    Broken model;
    dist::shard(model, options_for(world, {}));
    nn::materialize(model, cpu(), 3);
    HookHandle hook = model.b.register_forward_pre_hook(
        [](nn::Module&, std::span<Variable* const>) { throw ValueError("in a unit"); });
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
