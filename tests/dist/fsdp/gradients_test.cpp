// Gradients when backwards, resets and steps have an unusual order. Each rank's gradients are compared with
// those of one device on all ranks' samples.

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <thread>

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/grad_mode.h"
#include "dist/comm/interface/fault_injection.h"
#include "dist/fsdp/engine.h"
#include "dist/fsdp/shard.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/rules/sgd.h"
#include "tensor/ops/creation/creation.h"
#include "tests/dist/fsdp/on_threads.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

constexpr int64_t C = 5;

/// A unit: a layer with a factor before it.
struct Unit3 : nn::Layer<Unit3> {
  Variable& gain = parameter("gain", {C}, init::normal(0.3, 1));
  Variable& weight = parameter("weight", {C, C}, init::normal(0.4));
  Variable& bias = parameter("bias", {C}, init::normal(0.2));
  std::string kind() const override { return "Unit3"; }
  Variable forward(const Variable& x) { return gelu(linear(x * gain, weight, bias)); }
};

struct Tower : nn::Layer<Tower> {
  Unit3& a = add<Unit3>("a");
  Unit3& b = add<Unit3>("b");
  Unit3& c = add<Unit3>("c");
  Variable& scale = parameter("scale", {C}, init::normal(0.3, 1));
  Variable forward(const Variable& x) { return c(b(a(x))) * scale; }
};

Tensor input(int64_t sample) {
  const Tensor x = Tensor::empty({2, C}, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>((sample * 7 + i * 5) % 11) / 5 - 1;
  return x;
}

Variable loss_of(Tower& model, int64_t sample) {
  return sum(model(Variable(input(sample))));
}

struct Setting {
  Strategy strategy = Strategy::full_shard;
  std::optional<DType> reduce = {};
  int replicas = 1;
};
std::string to_string(const Setting& s) {
  return text(s.strategy, s.reduce ? text(", reduced in ", *s.reduce) : "", ", replicas ", s.replicas);
}

ShardOptions options_for(World& world, const Setting& s) {
  ShardOptions options{
      .mesh = s.replicas > 1 ? Mesh(world, {{"replica", s.replicas}, {"shard", -1}}) : Mesh(world),
      .strategy = s.strategy,
      .units = every<Unit3>()};
  options.precision.reduce = s.reduce;
  return options;
}

/// Checks that `body(model, sharding, rank, ranks)` returns no problems under every strategy.
template <class Body>
void under_each(const Body& body, void (*freeze)(Tower&) = nullptr) {
  for (const int ranks : {2, 4})
    test::require_no_problems(ranks, [&](World& world) {
      std::vector<Setting> settings;
      for (const Strategy strategy : dist::flat_strategies) settings.push_back({strategy});
      settings.push_back({Strategy::no_shard, bf16});
      if (world.size() == 4)
        for (const Strategy strategy :
             {Strategy::no_shard, Strategy::hybrid_shard, Strategy::hybrid_shard_zero2})
          settings.push_back({strategy, {}, 2});
      std::vector<std::string> problems;
      for (const Setting& setting : settings) {
        Tower model;
        if (freeze) freeze(model);
        Sharding& sharding = dist::shard(model, options_for(world, setting));
        nn::materialize(model, cpu(), 3);
        for (const std::string& problem : body(model, sharding, world.rank(), world.size()))
          problems.push_back(text(to_string(setting), ": ", problem));
      }
      return problems;
    });
}

/// The same model on one device, trained with the mean of the ranks' losses.
struct OneDevice {
  Tower model;
  explicit OneDevice(void (*freeze)(Tower&) = nullptr) {
    if (freeze) freeze(model);
    nn::materialize(model, cpu(), 3);
  }
  void backward(int64_t micro_batch, int ranks) {
    for (int rank = 0; rank < ranks; ++rank)
      loss_of(model, micro_batch * 4 + rank)
          .backward(Variable(Tensor::scalar(1.0f / static_cast<float>(ranks))));
  }
};

/// Differences of the gradients of this rank's shards from those of one device.
std::vector<std::string> differences(const nn::Module& model, const nn::Module& single) {
  std::vector<std::string> problems;
  const ParameterList mine = model.parameters(), all = single.parameters();
  for (size_t i = 0; i < mine.size(); ++i) {
    const Variable gradient = mine[i].variable.grad(), expected = all[i].variable.grad();
    if (gradient.defined() != expected.defined()) {
      problems.push_back(text("'", mine[i].name, "' has ", gradient.defined() ? "a" : "no", " gradient"));
      continue;
    }
    if (!gradient.defined()) continue;
    const int64_t first = mine[i].shard ? mine[i].shard->first : 0;
    for (int64_t k = 0; k < gradient.numel(); ++k) {
      const float found = gradient.value().data<float>()[k],
                  exact = expected.value().data<float>()[first + k];
      if (!(std::abs(found - exact) <= 0.02f * std::max(1.0f, std::abs(exact)))) {
        problems.push_back(text("'", mine[i].name, "' has ", found, " at ", first + k, ", expected ", exact));
        break;
      }
    }
  }
  return problems;
}

}  // namespace

TEST_CASE("gradients: gradients cleared between micro-batches stay cleared") {
  for (const bool communicate : {false, true})
    for (const bool to_none : {true, false})
      under_each([&](Tower& model, Sharding& sharding, int rank, int ranks) {
        OneDevice single;
        single.backward(2, ranks);
        single.backward(3, ranks);
        loss_of(model, 4 + rank).backward();
        {
          const Accumulation accumulation(sharding, communicate);
          loss_of(model, rank).backward();
          model.parameters().zero_grad(to_none);
          loss_of(model, 8 + rank).backward();
        }
        loss_of(model, 12 + rank).backward();
        return differences(model, single.model);
      });
}

TEST_CASE("gradients: one optimizer clears its own, those of another still accumulate") {
  under_each([](Tower& model, Sharding&, int rank, int ranks) {
    OneDevice single;
    const auto is_bias = [](const NamedParameter& p) { return p.name.ends_with("bias"); };
    single.backward(0, ranks);
    single.model.parameters().where(is_bias).zero_grad();
    single.backward(1, ranks);
    loss_of(model, rank).backward();
    model.parameters().where(is_bias).zero_grad();
    loss_of(model, 4 + rank).backward();
    return differences(model, single.model);
  });
}

TEST_CASE("gradients: modes of accumulation in any order") {
  under_each([](Tower& model, Sharding& sharding, int rank, int ranks) {
    OneDevice single;
    for (int64_t i = 0; i < 5; ++i) single.backward(i, ranks);
    const auto backward = [&](int64_t micro_batch) { loss_of(model, micro_batch * 4 + rank).backward(); };
    backward(0);
    {
      const NoSync no_sync(sharding);
      backward(1);
      const Accumulation communicating(sharding, true);
      backward(2);
    }
    {
      const NoSync no_sync(sharding);
      backward(3);
    }
    backward(4);
    return differences(model, single.model);
  });
}

TEST_CASE("gradients: several backwards of one forward, and of two losses, accumulate") {
  under_each([](Tower& model, Sharding&, int rank, int ranks) {
    OneDevice single;
    for (int twice = 0; twice < 2; ++twice) single.backward(0, ranks);
    for (int twice = 0; twice < 2; ++twice) single.backward(1, ranks);
    const Variable y = model(Variable(input(rank)));
    const Variable z = model(Variable(input(4 + rank)));
    sum(y).backward({.retain_graph = true});
    (sum(z) * 2.0).backward();
    sum(y).backward();
    return differences(model, single.model);
  });
}

TEST_CASE("gradients: gradients of inputs, between backward and step, do not change those of parameters") {
  under_each([](Tower& model, Sharding& sharding, int rank, int ranks) {
    OneDevice single;
    single.backward(0, ranks);
    single.backward(1, ranks);
    std::vector<std::string> problems;
    const auto check_input_gradient = [&] {
      const Variable x = Variable::leaf(input(rank));
      const Variable dx = grad(sum(model(x)), {x})[0];
      const Variable x_single = Variable::leaf(input(rank));
      const Variable expected = grad(sum(single.model(x_single)), {x_single})[0];
      for (int64_t i = 0; i < dx.numel(); ++i)
        if (dx.value().data<float>()[i] != expected.value().data<float>()[i])
          problems.push_back("dx differs");
    };
    {
      const NoSync no_sync(sharding);
      loss_of(model, rank).backward();
      check_input_gradient();
    }
    loss_of(model, 4 + rank).backward();
    const int64_t held = current_account()->count(MemoryCategory::gradient).current;
    check_input_gradient();
    if (current_account()->count(MemoryCategory::gradient).current > held)
      problems.push_back("gradients of inputs left memory for those of parameters");
    for (const std::string& problem : differences(model, single.model)) problems.push_back(problem);
    return problems;
  });
}

TEST_CASE("gradients: a backward that does not reach the model may run on one rank only") {
  under_each([](Tower& model, Sharding&, int rank, int ranks) {
    OneDevice single;
    single.backward(0, ranks);
    loss_of(model, rank).backward();
    if (rank == 0) {
      const Variable x = Variable::leaf(input(1));
      sum(x * x).backward();
    }
    return differences(model, single.model);
  });
}

TEST_CASE("gradients: after an exception in backward the next step is right") {
  under_each([](Tower& model, Sharding&, int rank, int ranks) {
    OneDevice single;
    single.backward(1, ranks);
    std::vector<std::string> problems;
    for (const bool in_forward : {true, false}) {
      const Variable h = model.b(model.a(Variable(input(rank))));
      if (in_forward) continue;  // drops the graph of an incomplete forward
      const Variable y = model(Variable(input(rank)));
      HookHandle hook = model.a.gain.register_hook(
          [](const Variable&) -> Variable { throw std::runtime_error("broken hook"); });
      bool threw = false;
      try {
        sum(y).backward();
      } catch (const std::runtime_error&) {
        threw = true;
      }
      hook.remove();
      if (!threw) problems.push_back("no exception");
    }
    model.parameters().zero_grad();
    loss_of(model, 4 + rank).backward();
    for (const std::string& problem : differences(model, single.model)) problems.push_back(problem);
    return problems;
  });
}

TEST_CASE("gradients: of a unit that the last micro-batch reaches on some ranks only") {
  // Under full_shard only some ranks would gather the unit for backward.
  for (const Strategy strategy : {Strategy::no_shard, Strategy::shard_optim, Strategy::shard_grad_op})
    for (const std::optional<DType> reduce : {std::optional<DType>(), std::optional<DType>(bf16)})
      test::require_no_problems(3, [&](World& world) {
        const auto loss = [](Tower& model, int64_t sample, bool skips) {
          const Variable x = model.a(Variable(input(sample)));
          const Variable y = model.b(x);
          return sum(model.c(skips ? x : y));
        };
        Tower model, single;
        Sharding& sharding = dist::shard(model, options_for(world, {strategy, reduce}));
        nn::materialize(model, cpu(), 3);
        nn::materialize(single, cpu(), 3);
        for (int rank = 0; rank < 3; ++rank)
          for (const int64_t first : {0, 4})
            loss(single, first + rank, first == 4 && rank == 1).backward(Variable(Tensor::scalar(1.0f / 3)));
        {
          const NoSync no_sync(sharding);
          loss(model, world.rank(), false).backward();
        }
        loss(model, 4 + world.rank(), world.rank() == 1).backward();
        return differences(model, single);
      });
}

TEST_CASE("gradients: frozen parameters before trained ones of a unit, and frozen units") {
  const auto freeze = [](Tower& model) {
    for (Unit3* unit : {&model.b, &model.c}) {
      unit->gain.set_requires_grad(false);
      unit->weight.set_requires_grad(false);
    }
    model.scale.set_requires_grad(false);
  };
  under_each(
      [&](Tower& model, Sharding&, int rank, int ranks) {
        OneDevice single(freeze);
        single.backward(0, ranks);
        loss_of(model, rank).backward();
        return differences(model, single.model);
      },
      freeze);
}

TEST_CASE("gradients: backward to some leaves only, through others of their unit") {
  under_each([](Tower& model, Sharding&, int rank, int ranks) {
    OneDevice single;
    const auto backward = [](Tower& tower, int64_t sample, float factor) {
      const Variable loss = sum(tower(Variable(input(sample)))), factors = Variable(Tensor::scalar(factor));
      tessera::backward({&loss, 1}, {&factors, 1}, {}, std::vector<Variable>{tower.b.bias, tower.a.bias});
    };
    for (int r = 0; r < ranks; ++r) backward(single.model, r, 1.0f / static_cast<float>(ranks));
    backward(model, rank, 1.0f);
    std::vector<std::string> problems;
    for (const std::string& problem : differences(model, single.model))
      if (problem.find("bias") != std::string::npos) problems.push_back(problem);
    return problems;
  });
}

TEST_CASE("gradients: frozen units are freed when backward has passed them") {
  test::require_no_problems(4, [](World& world) {
    Tower model;
    for (Unit3* unit : {&model.b, &model.c})
      for (nn::Module::Entry& entry : unit->entries()) entry.variable.set_requires_grad(false);
    ShardOptions options = options_for(world, {});
    options.backward_prefetch = BackwardPrefetch::none;
    dist::shard(model, options);
    nn::materialize(model, cpu(), 3);
    const Variable loss = loss_of(model, world.rank());
    current_account()->reset_peaks();
    loss.backward();
    constexpr int64_t unit = 16 * 4 * ((16 + 32 + 16 + 63) / 64), root = 64;  // padded, bytes / 4
    std::vector<std::string> problems;
    const int64_t peak = current_account()->count(MemoryCategory::communication).peak;
    if (peak > 4 * (root + unit)) problems.push_back(text(peak, " bytes gathered"));
    return problems;
  });
}

TEST_CASE("gradients: clipping has one norm on all ranks, with any gradients of an ignored module") {
  for (const Strategy strategy : {Strategy::no_shard, Strategy::full_shard, Strategy::hybrid_shard}) {
    std::vector<double> norms(4);
    test::require_no_problems(4, [&](World& world) {
      Tower model;
      ShardOptions options = options_for(world, {strategy, {}, strategy == Strategy::hybrid_shard ? 2 : 1});
      options.ignored = {&model.b};
      dist::shard(model, options);
      nn::materialize(model, cpu(), 3);
      loss_of(model, world.rank()).backward();
      norms[static_cast<size_t>(world.rank())] = optim::clip_grad_norm(model.parameters(), 0.1).item();
      return std::vector<std::string>();
    });
    for (const double norm : norms) CHECK(norm == norms[0]);
  }
}

TEST_CASE("sharding: an optimizer writes values only when no other rank reads them any more") {
  // Wide enough that ranks read each other's memory; short messages are copied at once.
  constexpr int64_t wide = 96;
  struct Wide : nn::Layer<Wide> {
    nn::Linear& layer = add<nn::Linear>("layer", {.in = wide, .out = wide});
    Variable forward(const Variable& x) { return layer(x); }
  };
  for (const Strategy strategy : {Strategy::shard_optim, Strategy::shard_grad_op, Strategy::full_shard}) {
    CAPTURE(name_of(strategy));
    std::vector<double> results(2);
    test::require_no_problems(2, [&](World& world) {
      Wide model;
      ShardOptions options = options_for(world, {strategy});
      options.units = every<nn::Linear>();
      dist::shard(model, options);
      nn::materialize(model, cpu(), 3);
      optim::SGD sgd(model.parameters(), {.lr = 1.0});
      const Variable x(ops::ones({1, wide}, f32));
      sum(model(x)).backward();
      sgd.step();
      const CommHookScope slow([&](CommPoint point, const CallHeader& call) {
        if (world.rank() == 1 && point == CommPoint::work && call.unit == "layer")
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
      });
      const NoGrad no_grad;
      const Variable y = sum(model(x));
      sgd.step();
      results[static_cast<size_t>(world.rank())] = y.item();
      return std::vector<std::string>();
    });
    CHECK(results[0] == results[1]);
  }
}

TEST_CASE("sharding: parameters that have values keep them, the others get theirs from the seed") {
  test::require_no_problems(2, [](World& world) {
    Tower model, single;
    nn::materialize(single, cpu(), 3);
    nn::materialize(model.b, cpu(), 3);
    Sharding& sharding = dist::shard(model, options_for(world, {}));
    nn::materialize(model, cpu(), 3);
    const SummonFullParams full(sharding);
    std::vector<std::string> problems;
    const nn::StateDict state = model.state_dict(), expected = single.state_dict();
    for (size_t i = 0; i < state.size(); ++i)
      if (state[i].tensor.data<float>()[0] != expected[i].tensor.data<float>()[0])
        problems.push_back(state[i].name);
    return problems;
  });
}

TEST_CASE("summon: under no_shard a changed value stays changed, in half precision too") {
  test::require_no_problems(2, [](World& world) {
    Tower model;
    ShardOptions options = options_for(world, {Strategy::no_shard});
    options.precision.compute = bf16;
    Sharding& sharding = dist::shard(model, options);
    nn::materialize(model, cpu(), 3);
    {
      const SummonFullParams full(sharding);
      model.scale.value().data<float>()[0] = 4;
    }
    const float rounded = static_cast<float>(model.scale.value().narrow(0, 0, 1).item());
    std::vector<std::string> problems;
    if (rounded != 4) problems.push_back(text("computes with ", rounded));
    {
      const SummonFullParams one(sharding, {.unit = &model.a});
      try {
        const SummonFullParams other(sharding, {.unit = &model.b});
        problems.push_back("two are open");
      } catch (const ConfigError&) {
      }
    }
    return problems;
  });
}
