// Layers with options in their base, constant modules, modules by value, and containers of them.

#include "nn/layers/containers.h"

#include <doctest/doctest.h>

#include <sstream>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "nn/layers/activation.h"
#include "nn/layers/dropout.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/normalization.h"
#include "nn/materialize.h"
#include "tensor/ops/creation/creation.h"
#include "tests/support/error_text.h"

using namespace tessera;

namespace {

struct MlpOptions {
  int64_t width = 4;
  bool bias = true;
};

/// The child reads the options; no member holds them.
struct Mlp : nn::Layer<Mlp, MlpOptions> {
  using Layer::Layer;
  nn::Linear& fc = add("fc", nn::Linear(o.width, 2 * o.width, o.bias));
  nn::Sequential& rest = add("rest", nn::Sequential{nn::ReLU(), nn::Linear(2 * o.width, o.width)});
  Variable forward(const Variable& x) const { return rest(fc(x)); }
};

/// By the older form: options as a member.
struct OwnOptions : nn::Layer<OwnOptions> {
  struct Options {
    int64_t width;
  };
  Options o;
  nn::Linear& fc = add<nn::Linear>("fc", {.in = o.width, .out = o.width});
  explicit OwnOptions(Options options) : o(options) {}
  Variable forward(const Variable& x) { return fc(x); }
};

struct Both : nn::Layer<Both> {
  Variable forward(const Variable& x) { return x * 2.0; }
  Variable forward(const Variable& x) const { return x * 3.0; }
};

template <class M>
concept Callable = requires(M& module, const Variable& x) {
  module(x);
};

std::vector<float> values(const Variable& x) {
  const Tensor t = x.value().contiguous();
  return {t.data<float>(), t.data<float>() + t.numel()};
}
Variable input() {
  return Variable(Tensor::from({0.5f, -1.0f, 2.0f, 0.25f, 3.0f, -2.0f, 1.0f, 0.0f}, {2, 4}));
}
std::string names_of(const nn::Module& module) {
  std::string names;
  for (const auto& [name, parameter] : module.named_parameters()) names += name + " ";
  return names;
}

}  // namespace

TEST_CASE("layer: options of the base are there before the members") {
  Mlp mlp({.width = 3, .bias = false});
  CHECK(mlp.o.width == 3);
  CHECK(mlp.fc.weight.shape() == Shape{6, 3});
  CHECK(mlp.fc.bias == nullptr);
  CHECK(names_of(mlp) == "fc.weight rest.1.weight rest.1.bias ");
  CHECK(Mlp().o.width == 4);  // the options' defaults
  struct Parent : nn::Layer<Parent> {
    Mlp& mlp = add<Mlp>("mlp", {.width = 5});
    OwnOptions& own = add<OwnOptions>("own", {.width = 2});
    Mlp& plain = add<Mlp>("plain");
  };
  Parent parent;
  CHECK(parent.mlp.o.width == 5);
  CHECK(parent.own.fc.o.out == 2);
  CHECK(parent.plain.fc.o.in == 4);
}

TEST_CASE("layer: a constant module is called, hooks included, where its forward is constant") {
  Mlp mlp;
  nn::materialize(mlp, cpu(), 1);
  mlp.eval();
  const Mlp& constant = mlp;
  const std::vector<float> plain = values(mlp(input()));
  CHECK(values(constant(input())) == plain);
  nn::Module* called = nullptr;
  mlp.register_forward_hook([&](nn::Module& module, auto&, auto& outputs) {
    called = &module;
    outputs[0] = outputs[0] * 2.0;
  });
  CHECK(values(constant(input()))[0] == 2 * plain[0]);
  CHECK(called == &mlp);
  Both both;
  CHECK(values(both(input()))[0] == 1.0f);
  CHECK(values(std::as_const(both)(input()))[0] == 1.5f);
  CHECK(Callable<const Mlp>);
  CHECK(Callable<OwnOptions>);
  CHECK(!Callable<nn::ModuleDict<>>);
}

TEST_CASE("modules: positional options are the named ones") {
  CHECK(to_string(nn::Linear(2, 64)) == to_string(nn::Linear({.in = 2, .out = 64})));
  CHECK(to_string(nn::Linear(2, 64, false)) == "Linear(2 -> 64, no bias)");
  CHECK(to_string(nn::Embedding(10, 4)) == to_string(nn::Embedding({.count = 10, .width = 4})));
}

TEST_CASE("modules: moved as values, references to parameters and children stay valid") {
  Mlp original({.width = 4});
  nn::materialize(original, cpu(), 3);
  const std::vector<float> expected = values(original(input()));
  const VariableImpl* weight = original.fc.weight.impl().get();
  Mlp moved = std::move(original);
  CHECK(moved.fc.weight.impl().get() == weight);
  CHECK(moved.fc.parent() == &moved);
  CHECK(&moved.at("fc") == &moved.fc);
  CHECK(values(moved(input())) == expected);
  struct Parent : nn::Layer<Parent> {
    Mlp& inner;
    explicit Parent(Mlp&& mlp) : inner(add("inner", std::move(mlp))) {}
    Variable forward(const Variable& x) const { return inner(x); }
  };
  Parent parent(std::move(moved));
  CHECK(parent.inner.fc.full_name() == "inner.fc");
  CHECK(values(parent(input())) == expected);
  CHECK_THROWS_WITH_AS(Mlp(std::move(parent.inner)), "Mlp 'inner' cannot be moved: it has a parent",
                       ConfigError);
  nn::Linear hooked(2, 2);
  hooked.register_forward_pre_hook([](auto&, auto&) {});
  CHECK_THROWS_WITH_AS(nn::Sequential(std::move(hooked)), doctest::Contains("it has hooks"), ConfigError);
}

TEST_CASE("sequential: of modules by value, in braces, by number and by name") {
  nn::Sequential net{nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2, false)};
  nn::Sequential pushed;
  pushed.push<nn::Linear>({.in = 4, .out = 8});
  pushed.push<nn::ReLU>();
  pushed.push(nn::Linear(8, 2, false));
  nn::materialize(net, cpu(), 5);
  nn::materialize(pushed, cpu(), 5);
  CHECK(names_of(net) == "0.weight 0.bias 2.weight ");
  CHECK(values(net(input())) == values(pushed(input())));
  CHECK(values(std::as_const(net)(input())) == values(net(input())));
  CHECK(net.size() == 3);
  CHECK(net[0].as<nn::Linear>()->o.out == 8);
  CHECK(net[1].as<nn::Linear>() == nullptr);
  CHECK_THROWS_WITH_AS(net[3], "Sequential '': module 3 of 3", IndexError);

  nn::Sequential named;
  named.push("fc", nn::Linear(4, 8));
  named.push("act", nn::ReLU());
  CHECK(names_of(named) == "fc.weight fc.bias ");
  CHECK_THROWS_AS(named.push("act", nn::GELU()), ConfigError);
  std::ostringstream out;
  out << named;
  CHECK(out.str() == "Sequential(\n  (fc): Linear(4 -> 8)\n  (act): ReLU()\n)");
}

TEST_CASE("sequential: begins with a module of ids, and nests") {
  nn::Sequential net{nn::Embedding(10, 4), nn::Sequential{nn::LayerNorm(4), nn::Dropout(0.5)}};
  nn::materialize(net, cpu(), 1);
  net.eval();
  CHECK(net(Tensor::from<int64_t>({1, 9, 3}, {3})).shape() == Shape{3, 4});
  CHECK(names_of(net) == "0.weight 1.0.weight 1.0.bias ");
}

TEST_CASE("module list: of one type it is called, of several it is not") {
  nn::ModuleList layers{nn::Linear(4, 4), nn::Linear(4, 4)};
  static_assert(std::is_same_v<decltype(layers), nn::ModuleList<nn::Linear>>);
  nn::materialize(layers, cpu(), 1);
  Variable y = input();
  for (nn::Linear& layer : layers) y = layer(y);
  CHECK(values(y) == values(std::as_const(layers)(input())));

  nn::ModuleList any{nn::Linear(4, 8), nn::ReLU()};
  static_assert(std::is_same_v<decltype(any), nn::ModuleList<>>);
  any.push<nn::LayerNorm>({.normalized_shape = {8}});
  any.push<nn::Dropout>(0.25);
  any.push(Mlp());
  CHECK(!any.has_forward());
  CHECK(!Callable<nn::ModuleList<>>);
  CHECK(any.size() == 5);
  CHECK(any[0].as<nn::Linear>()->o.out == 8);
  std::string kinds;
  for (nn::Module& module : any) kinds += module.kind() + " ";
  CHECK(kinds == "Linear ReLU LayerNorm Dropout Mlp ");
  CHECK(names_of(any).rfind("0.weight 0.bias 2.weight 2.bias 4.fc.weight", 0) == 0);
}

TEST_CASE("module dict: by name, in order of insertion") {
  nn::ModuleDict<> heads;
  nn::Linear& classes = heads.insert("classes", nn::Linear(4, 10));
  heads.insert<nn::Linear>("boxes", {.in = 4, .out = 2});
  heads.insert<nn::Dropout>("drop", 0.5);
  CHECK(heads.keys() == std::vector<std::string>{"classes", "boxes", "drop"});
  CHECK(&heads["classes"] == &classes);
  CHECK(heads.contains("boxes"));
  CHECK(!heads.contains("masks"));
  CHECK_THROWS_WITH_AS(heads["masks"], "ModuleDict '': no module 'masks': it has classes, boxes, drop",
                       ValueError);
  CHECK_THROWS_WITH_AS(heads.insert("boxes", nn::ReLU()), doctest::Contains("the name 'boxes' is taken"),
                       ConfigError);
  std::string seen;
  for (auto& [name, module] : heads) seen += name + "=" + module.kind() + " ";
  CHECK(seen == "classes=Linear boxes=Linear drop=Dropout ");
  nn::ModuleDict<nn::Linear> linear;
  linear.insert("a", {.in = 2, .out = 3});
  nn::materialize(linear, cpu(), 1);
  CHECK(linear["a"](Variable(ops::ones({1, 2}, f32))).shape() == Shape{1, 3});
}

TEST_CASE("modules: a member that was not added is reported by the first operation on its weight") {
  struct Forgotten : nn::Layer<Forgotten> {
    nn::Sequential net{nn::Linear(2, 2), nn::ReLU()};
    Variable forward(const Variable& x) const { return net(x); }
  };
  Forgotten model;
  CHECK(model.parameters().empty());
  nn::materialize(model, cpu(), 1);
  const std::string message = message_of<DeviceError>([&] { model(ops::ones({1, 2})); });
  CHECK(contains(message, "(a member module is part of a model only where add(name, module) made it)"));
}
