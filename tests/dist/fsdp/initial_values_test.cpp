#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "dist/fsdp/shard.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/grad_scaler.h"
#include "optim/rules/adam.h"
#include "optim/rules/sgd.h"
#include "tests/dist/fsdp/on_threads.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

struct Model : nn::Layer<Model> {
  nn::Linear& a = add<nn::Linear>("a", {.in = 5, .out = 5});
  nn::Linear& b = add<nn::Linear>("b", {.in = 5, .out = 5});
  Variable& shift = buffer("shift", {5}, init::constant(0.5));
  Variable forward(const Variable& x) { return b(a(x)) + shift; }
};

ShardOptions options_for(World& world, Strategy strategy) {
  return {.mesh = Mesh(world), .strategy = strategy, .units = every<nn::Linear>()};
}

Variable input() {
  return Variable(Tensor::scalar(1.0f).expand({2, 5}).clone());
}

/// The message of the Expected that `body` throws; "" when it throws none.
template <class Expected, class Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const Expected& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> unless(bool holds, const std::string& problem) {
  return holds ? std::vector<std::string>() : std::vector{problem};
}

/// The error of sharding a model that `prepare(model, options, rank)` gave its values; "" without one.
template <class Prepare>
std::string shard_error(World& world, ShardOptions options, const Prepare& prepare) {
  return message_of<ValueError>([&] {
    Model model;
    prepare(model, options, world.rank());
    dist::shard(model, options);
  });
}

bool has_all(const std::string& message, std::initializer_list<const char*> phrases) {
  return std::all_of(phrases.begin(), phrases.end(),
                     [&](const char* phrase) { return message.find(phrase) != std::string::npos; });
}

}  // namespace

TEST_CASE("initial values: different values on ranks are an error that names parameter and ranks") {
  for (const Strategy strategy : flat_strategies) {
    CAPTURE(name_of(strategy));
    test::require_no_problems(3, [&](World& world) {
      const std::string message =
          shard_error(world, options_for(world, strategy), [](Model& model, ShardOptions&, int rank) {
            nn::materialize(model, cpu(), 3);
            if (rank == 2) model.b.weight.value().data<float>()[7] += 1;
          });
      return unless(
          has_all(message, {"'b.weight'", "other values", "rank 2", "rank 0", "sync_module_states"}),
          message);
    });
  }
}

TEST_CASE("initial values: buffers and ignored modules are compared, ranks without values are named") {
  test::require_no_problems(3, [&](World& world) {
    const ShardOptions options = options_for(world, Strategy::full_shard);
    const std::string of_buffer = shard_error(world, options, [](Model& model, ShardOptions&, int rank) {
      nn::materialize(model, cpu(), 3);
      if (rank == 1) model.shift.value().data<float>()[0] = 4;
    });
    const std::string of_ignored =
        shard_error(world, options, [](Model& model, ShardOptions& mine, int rank) {
          mine.ignored = {&model.a};
          nn::materialize(model, cpu(), rank == 0 ? 3 : 4);
          nn::Linear& same = model.b;
          for (const Variable* x : {&same.weight, &*same.bias}) x->value().zero();
        });
    const std::string of_none = shard_error(world, options, [](Model& model, ShardOptions&, int rank) {
      if (rank == 1) nn::materialize(model, cpu(), 3);
    });
    std::vector<std::string> problems;
    if (!has_all(of_buffer, {"'shift'", "rank 1"})) problems.push_back("buffer: " + of_buffer);
    if (!has_all(of_ignored, {"'a.weight'", "ranks 1 and 2"})) problems.push_back("ignored: " + of_ignored);
    if (!has_all(of_none, {"'shift'", "values on rank 1", "none yet on rank 0"}))
      problems.push_back("none: " + of_none);
    return problems;
  });
}

TEST_CASE("initial values: a parameter frozen on some ranks only is an error that names it and the ranks") {
  for (const Strategy strategy : flat_strategies)
    for (const bool syncs : {false, true})
      for (const bool on_meta : {false, true}) {
        CAPTURE(name_of(strategy));
        test::require_no_problems(3, [&](World& world) {
          ShardOptions options = options_for(world, strategy);
          options.sync_module_states = syncs;
          const std::string message = shard_error(world, options, [&](Model& model, ShardOptions&, int rank) {
            if (!on_meta) nn::materialize(model, cpu(), 3);
            if (rank == 0) model.b.weight.set_requires_grad(false);
          });
          return unless(has_all(message, {"'b.weight'", "trained on ranks 1 and 2", "frozen on rank 0"}),
                        message);
        });
      }
}

TEST_CASE("initial values: another dtype on a rank is an error that names the dtypes") {
  for (const bool syncs : {false, true})
    test::require_no_problems(3, [&](World& world) {
      ShardOptions options = options_for(world, Strategy::full_shard);
      options.sync_module_states = syncs;
      const std::string of_buffer = shard_error(world, options, [](Model& model, ShardOptions&, int rank) {
        nn::materialize(model, cpu(), 3);
        if (rank == 2) model.shift.set_value(Tensor::scalar(0.5).expand({5}).clone());
      });
      const std::string of_all = shard_error(world, options, [](Model& model, ShardOptions&, int rank) {
        nn::materialize(model, cpu(), 3);
        if (rank == 1) model.to(f64);
      });
      std::vector<std::string> problems;
      if (!has_all(of_buffer, {"'shift'", "f64 on rank 2", "f32 on rank 0"})) problems.push_back(of_buffer);
      if (!has_all(of_all, {"f64 on rank 1", "f32 on rank 0", "every rank"})) problems.push_back(of_all);
      return problems;
    });
}

TEST_CASE("initial values: different seeds on ranks are an error") {
  for (const Strategy strategy : flat_strategies) {
    CAPTURE(name_of(strategy));
    test::require_no_problems(2, [&](World& world) {
      Model model;
      dist::shard(model, options_for(world, strategy));
      const std::string message = message_of<ValueError>(
          [&] { nn::materialize(model, cpu(), uint64_t{5} + static_cast<uint64_t>(world.rank())); });
      return unless(has_all(message, {"seed", "5 on rank 0", "6 on rank 1"}), message);
    });
  }
}

TEST_CASE("optimizers: a list made before shard is an error in a step, in clipping and in unscaling") {
  for (const Strategy strategy : flat_strategies) {
    CAPTURE(name_of(strategy));
    test::require_no_problems(2, [&](World& world) {
      Model model;
      nn::materialize(model, cpu(), 3);
      const ParameterList before = model.parameters();
      optim::AdamW early(before, {.lr = 0.1});
      Sharding& sharding = dist::shard(model, options_for(world, strategy));
      optim::AdamW adam(model.parameters(), {.lr = 0.1});
      sum(model(input())).backward();
      const std::vector<std::string> messages{
          message_of<ConfigError>([&] { early.step(); }),
          message_of<ConfigError>([&] { optim::SGD(before, {.lr = 0.1}); }),
          message_of<ConfigError>([&] { optim::clip_grad_norm(before, 1.0); }),
          message_of<ConfigError>([&] { optim::clip_grad_value(before, 1.0); }),
          message_of<ConfigError>([&] { optim::GradScaler().unscale(before); })};
      std::vector<std::string> problems;
      for (const std::string& message : messages)
        if (!has_all(message, {"'a.weight'", "sharded after", "after dist::shard"}))
          problems.push_back("'" + message + "'");
      adam.step();  // made after shard
      const SummonFullParams full(sharding);
      if (model.b.bias->value().data<float>()[0] == 0) problems.push_back("nothing was trained");
      return problems;
    });
  }
}

TEST_CASE("optimizers: sums over shards need the list's reducer") {
  test::require_no_problems(2, [](World& world) {
    Model model;
    dist::shard(model, options_for(world, Strategy::full_shard));
    nn::materialize(model, cpu(), 3);
    sum(model(input())).backward();
    ParameterList copied, chosen = model.parameters().where([](const NamedParameter&) { return true; });
    for (const NamedParameter& parameter : chosen) copied.push_back(parameter);
    const std::string message = message_of<ConfigError>([&] { optim::clip_grad_norm(copied, 1.0); });
    std::vector<std::string> problems = unless(has_all(message, {"'a.weight'", "reducer"}), message);
    copied.set_reducer(chosen.reducer());
    if (optim::grad_norm(copied).item() != optim::grad_norm(chosen).item())
      problems.push_back("the norms differ");
    return problems;
  });
}

TEST_CASE("sync_module_states: all ranks take rank 0's values, from other values and from meta") {
  Model single;
  nn::materialize(single, cpu(), 9);
  single.shift.value().data<float>()[1] = 7;
  for (const Strategy strategy : flat_strategies)
    for (const bool on_meta : {false, true}) {
      CAPTURE(name_of(strategy));
      CAPTURE(on_meta);
      test::require_no_problems(3, [&](World& world) {
        Model model;
        ShardOptions options = options_for(world, strategy);
        options.ignored = {&model.a};
        options.sync_module_states = true;
        if (world.rank() == 0) {
          nn::materialize(model, cpu(), 9);
          model.shift.value().data<float>()[1] = 7;
        } else if (!on_meta) {
          nn::materialize(model, cpu(), static_cast<uint64_t>(world.rank()));
        }
        Sharding& sharding = dist::shard(model, options);
        const SummonFullParams full(sharding);
        const nn::StateDict state = model.state_dict(), expected = single.state_dict();
        std::vector<std::string> problems;
        for (size_t i = 0; i < expected.size(); ++i)
          for (int64_t k = 0; k < expected[i].tensor.numel(); ++k)
            if (state[i].tensor.data<float>()[k] != expected[i].tensor.data<float>()[k]) {
              problems.push_back(state[i].name);
              break;
            }
        return problems;
      });
    }
}

TEST_CASE(
    "sync_module_states: values that rank 0 lacks are an error; with ignored_differ experts keep theirs") {
  test::require_no_problems(2, [](World& world) {
    ShardOptions options = options_for(world, Strategy::full_shard);
    options.sync_module_states = true;
    const std::string message = shard_error(world, options, [](Model& model, ShardOptions&, int rank) {
      if (rank == 1) nn::materialize(model, cpu(), 3);
    });
    std::vector<std::string> problems =
        unless(has_all(message, {"'shift'", "values on rank 1", "none yet on rank 0"}), message);
    Model model;
    nn::materialize(model, cpu(), 3);
    model.a.weight.value().data<float>()[0] = static_cast<float>(world.rank());
    options.ignored = {&model.a};
    options.ignored_differ = true;
    dist::shard(model, options);
    if (model.a.weight.value().data<float>()[0] != static_cast<float>(world.rank()))
      problems.push_back("an expert was overwritten");
    return problems;
  });
}
