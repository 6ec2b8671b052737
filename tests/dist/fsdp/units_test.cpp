// Modules that can be units, the error of a parameter read outside its unit's calls, and SummonFullParams
// during forward and backward.

#include <map>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/grad_mode.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "tests/dist/fsdp/against_one_device.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

constexpr int64_t C = 4;

Variable input(int64_t sample = 0) {
  const Tensor x = Tensor::empty({2, C}, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>((sample * 7 + i * 5) % 11) / 5 - 1;
  return x;
}

/// The message of the error of the expected type that `attempt` throws; else what happened instead.
template <class Expected, class Attempt>
std::string thrown(const Attempt& attempt) {
  try {
    attempt();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    return text("another error: ", error.what());
  }
  return "nothing";
}

void expect(std::vector<std::string>& problems, const std::string& message,
            std::initializer_list<std::string> phrases) {
  for (const std::string& phrase : phrases)
    if (message.find(phrase) == std::string::npos) {
      problems.push_back(text("no \"", phrase, "\" in: ", message));
      return;
    }
}

/// The logits of three tokens, one by one, and the loss of a batch, with its backward.
std::vector<float> decode_and_train(models::Gpt& gpt) {
  std::vector<float> seen;
  {
    const NoGrad no_grad;
    models::GptCache cache = gpt.make_cache(1);
    for (const int64_t token : {1, 4, 2}) {
      const Variable logits = gpt.forward_cached(Tensor::from<int64_t>({token}, {1, 1}), cache);
      seen.insert(seen.end(), logits.value().data<float>(), logits.value().data<float>() + logits.numel());
    }
  }
  const Tensor ids = Tensor::from<int64_t>({1, 4, 9, 0}, {1, 4});
  const Variable loss = gpt.loss(ids, ids);
  loss.backward();
  seen.push_back(static_cast<float>(loss.item()));
  return seen;
}

}  // namespace

TEST_CASE(
    "units: with units by size a model decodes with caches and trains, also with lists of layers and tied "
    "heads") {
  for (const bool tied : {false, true}) {
    const models::GptOptions small{
        .vocabulary = 11, .block_size = 8, .layers = 2, .heads = 2, .width = 16, .tie_weights = tied};
    models::Gpt single(small);
    nn::materialize(single, cpu(), 3);
    const std::vector<float> expected = decode_and_train(single);
    for (const int64_t numel : {1, 100, 300, 1000, 3000, 1000000})
      test::require_no_problems(2, [&](World& world) {
        std::vector<std::string> problems;
        for (const Strategy strategy : {Strategy::no_shard, Strategy::shard_grad_op, Strategy::full_shard}) {
          models::Gpt gpt(small);
          dist::shard(gpt, {.mesh = Mesh(world), .strategy = strategy, .units = min_num_params(numel)});
          nn::materialize(gpt, cpu(), 3);
          if (decode_and_train(gpt) != expected) problems.push_back(text(numel, ", ", strategy));
        }
        return problems;
      });
  }
}

TEST_CASE("units: modules that no call would gather are errors; min_num_params does not choose them") {
  struct Bag : nn::Layer<Bag> {
    Variable& weight = parameter("weight", {C, C}, init::normal(0.4));
  };
  struct Plain : nn::Module {
    Variable& weight = parameter("weight", {C, C}, init::normal(0.4));
  };
  struct Model : nn::Layer<Model> {
    Bag& bag = add<Bag>("bag");
    Plain& plain = add<Plain>("plain");
    nn::ModuleList<nn::Linear>& list = add<nn::ModuleList<nn::Linear>>("list");
    Model() { list.push({.in = C, .out = C}); }
    Variable forward(const Variable& x) {
      return linear(linear(list[0](x), bag.weight, {}), plain.weight, {});
    }
  };
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    const auto attempt = [&](Strategy strategy, UnitPolicy units) {
      Model model;
      dist::shard(model, {.mesh = Mesh(world), .strategy = strategy, .units = std::move(units)});
      nn::materialize(model, cpu(), 3);
      sum(model(input())).backward();
    };
    for (const Strategy strategy : {Strategy::full_shard, Strategy::shard_grad_op}) {
      const auto message = [&](const char* name) {
        return thrown<ConfigError>([&] { attempt(strategy, units_named({name})); });
      };
      expect(problems, message("bag"), {"unit 'bag'", "'bag.weight'", "no forward"});
      expect(problems, message("plain"), {"unit 'plain'", "'plain.weight'", "no forward"});
      expect(problems, message("list"), {"unit 'list'", "'list.0.weight'", "every_block()"});
      attempt(strategy, min_num_params(1));
      attempt(strategy, every_block());
    }
    attempt(Strategy::no_shard, units_named({"bag", "plain", "list"}));
    Plain plain;
    expect(problems, thrown<ConfigError>([&] { dist::shard(plain, {.mesh = Mesh(world)}); }),
           {"unit 'root'", "'weight'", "no forward"});
    return problems;
  });
}

namespace {

/// Results in a map, and in a struct that hooks cannot look into.
struct Named : nn::Layer<Named> {
  nn::Linear& a = add<nn::Linear>("a", {.in = C, .out = C, .weight_init = init::normal(0.4)});
  nn::Linear& b = add<nn::Linear>("b", {.in = C, .out = C, .weight_init = init::normal(0.4)});
  std::map<std::string, Variable> forward(const std::map<std::string, Variable>& in) {
    return {{"a", a(in.at("x"))}, {"b", b(in.at("x"))}};
  }
};
struct Hidden {
  Variable x;
};
struct Hiding : nn::Layer<Hiding> {
  nn::Linear& a = add<nn::Linear>("a", {.in = C, .out = C, .weight_init = init::normal(0.4)});
  Hidden forward(const Hidden& in) { return {a(a(in.x))}; }
};
struct Containers : nn::Layer<Containers> {
  nn::Linear& first = add<nn::Linear>("first", {.in = C, .out = C, .weight_init = init::normal(0.4)});
  Named& named = add<Named>("named");
  Hiding& hiding = add<Hiding>("hiding");
  Variable forward(const Variable& x) {
    const auto results = named(std::map<std::string, Variable>{{"x", first(x)}});
    return hiding(Hidden{results.at("a") * 2.0 + results.at("b")}).x;
  }
};

/// Shards `model` with its containers as units, and gives it the same values on every rank.
Sharding& shard_containers(Containers& model, World& world, Strategy strategy) {
  Sharding& sharding = dist::shard(
      model, {.mesh = Mesh(world), .strategy = strategy, .units = units_named({"named", "hiding"})});
  nn::materialize(model, cpu(), 3);
  return sharding;
}

}  // namespace

TEST_CASE("units: results in maps, and in structs that no hook can look into") {
  test::require_no_problems(2, [](World& world) {
    return test::compare_all(
        world,
        [&](const test::Setting& setting) {
          Containers model;
          dist::shard(model, {.mesh = test::mesh_for(world, setting),
                              .strategy = setting.strategy,
                              .units = units_named({"named", "hiding"})});
          nn::materialize(model, cpu(), 3);
          sum(model(input(world.rank()))).backward();
          return test::shards_of(model);
        },
        [&] {
          Containers model;
          nn::materialize(model, cpu(), 3);
          for (int rank = 0; rank < 2; ++rank)
            sum(model(input(rank))).backward(Variable(Tensor::scalar(0.5f)));
          return test::shards_of(model);
        });
  });
}

TEST_CASE("units: the error of a parameter read outside its unit's calls names it and what to do") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    Containers model;
    dist::shard(model, {.mesh = Mesh(world), .units = units_named({"named", "hiding"})});
    nn::materialize(model, cpu(), 3);
    const auto message = [](const auto& attempt) { return thrown<StorageError>(attempt); };
    expect(problems, message([&] { (void)model.named.b.bias->value().data<float>(); }),
           {"'named.b.bias'", "unit 'named'", "Call that module", "SummonFullParams"});
    expect(problems, message([&] { model.hiding.a(input()); }), {"'hiding.a.weight'", "unit 'hiding'"});
    expect(problems, message([&] { model.named.a(input()); }), {"'named.a.weight'", "dist::Unsharded"});
    sum(model(input())).backward();
    expect(problems, message([&] { model.hiding.forward({input()}); }), {"'hiding.a.weight'"});
    return problems;
  });
}

TEST_CASE("summon: an error while a forward or a backward runs, and usable after one that threw") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : strategies) {
      Containers model;
      Sharding& sharding = shard_containers(model, world, strategy);
      const auto open = [&] { const SummonFullParams full(sharding); };
      HookHandle hook;
      const auto in_forward = [&](nn::Module& module) {
        hook = module.register_forward_hook(
            [&](nn::Module&, const nn::CallVariables&, const nn::CallVariables&) { open(); });
        const std::string message = thrown<ConfigError>([&] { model(input()); });
        hook.remove();
        return message;
      };
      for (nn::Module* module :
           {static_cast<nn::Module*>(&model.first), static_cast<nn::Module*>(&model.named.a)})
        expect(problems, in_forward(*module), {"SummonFullParams", "is running"});
      open();
      for (nn::Module* module : {static_cast<nn::Module*>(&model), static_cast<nn::Module*>(&model.named)}) {
        const Variable loss = sum(model(input()));
        hook = module->register_full_backward_pre_hook([&](nn::Module&, std::vector<Variable>&) { open(); });
        const Variable other = sum(model(input()));
        expect(problems, thrown<ConfigError>([&] { other.backward(); }), {"SummonFullParams", "is running"});
        hook.remove();
        open();
        model.parameters().zero_grad();
        loss.backward();
      }
    }
    return problems;
  });
}

TEST_CASE("summon: while it is open a backward that trains the model is an error, one to an input is not") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : strategies) {
      Containers model;
      Sharding& sharding = shard_containers(model, world, strategy);
      const Variable x = Variable::leaf(input().value());
      const Variable before = sum(model(x));
      {
        const SummonFullParams full(sharding);
        const Variable loss = sum(model(x));
        for (const Variable& trained : {loss, before})
          expect(problems, thrown<ConfigError>([&] { trained.backward({.retain_graph = true}); }),
                 {"SummonFullParams", "close it"});
        if (!grad({loss}, {x})[0].defined()) problems.push_back("no gradient of the input");
      }
      sum(model(x)).backward();
      for (const NamedParameter& parameter : model.parameters())
        if (!parameter.variable.grad().defined()) problems.push_back("no gradient of " + parameter.name);
    }
    return problems;
  });
}

TEST_CASE("summon: between a forward and its backward it changes no bit, also with rounded parameters") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : strategies)
      for (const bool rounded : {false, true}) {
        std::vector<std::vector<test::Shard>> results;
        for (const bool summons : {false, true}) {
          Containers model;
          ShardOptions options{
              .mesh = Mesh(world), .strategy = strategy, .units = units_named({"named", "hiding"})};
          if (rounded) options.precision.compute = bf16;
          Sharding& sharding = dist::shard(model, options);
          nn::materialize(model, cpu(), 3);
          const Variable loss = sum(model(input(world.rank())));
          if (summons) const SummonFullParams full(sharding);
          loss.backward();
          results.push_back(test::shards_of(model));
        }
        for (const std::string& problem : test::differences(results[1], results[0], 0))
          problems.push_back(text(strategy, rounded ? ", bf16: " : ": ", problem));
      }
    return problems;
  });
}

TEST_CASE("summon: a forward inside and its backward after it have the bits of both outside") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : strategies) {
      std::vector<std::vector<test::Shard>> results;
      for (const bool summons : {false, true}) {
        Containers model;
        Sharding& sharding = shard_containers(model, world, strategy);
        for (int step = 0; step < 2; ++step) {
          std::optional<SummonFullParams> full;
          if (summons) full.emplace(sharding);
          const Variable loss = sum(model(input(world.rank())));
          full.reset();
          loss.backward();
          for (const NamedParameter& parameter : model.parameters()) {
            const NoGrad no_grad;
            if (parameter.variable.grad().defined()) add_(parameter.variable, parameter.variable.grad());
          }
        }
        results.push_back(test::shards_of(model));
      }
      for (const std::string& problem : test::differences(results[1], results[0], 0))
        problems.push_back(text(strategy, ": ", problem));
    }
    return problems;
  });
}

TEST_CASE("summon: a forward inside that read rounded parameters in f32 has an error in backward after it") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : strategies) {
      Containers model;
      Sharding& sharding = dist::shard(model, {.mesh = Mesh(world),
                                               .strategy = strategy,
                                               .units = units_named({"named", "hiding"}),
                                               .precision = {.compute = bf16}});
      nn::materialize(model, cpu(), 3);
      Variable loss;
      {
        const SummonFullParams full(sharding);
        loss = sum(model(input(world.rank())));
      }
      expect(problems, thrown<ConfigError>([&] { loss.backward(); }), {"SummonFullParams"});
    }
    return problems;
  });
}
