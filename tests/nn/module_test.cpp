#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/layers/loss.h"
#include "autograd/functions/reduction.h"
#include "autograd/grad_mode.h"
#include "nn/layers/activation.h"
#include "nn/layers/containers.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/normalization.h"
#include "nn/materialize.h"
#include "nn/summary.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"

using namespace tessera;

namespace {

/// Two linear layers and a buffer; the second layer's weight has a second name, "tied".
struct Pair : nn::Layer<Pair> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 3, .out = 4});
  nn::Linear& second = add<nn::Linear>("second", {.in = 4, .out = 3, .bias = false});
  Variable& scale = buffer("scale", {3}, init::ones());
  Variable& tied = share_parameter("tied", second.weight);
  std::string kind() const override { return "Pair"; }
  Variable forward(const Variable& x) { return second(first(x)) * scale; }
};

struct Outer : nn::Layer<Outer> {
  Pair& inner = add<Pair>("inner");
  nn::LayerNorm& norm = add<nn::LayerNorm>("norm", 3);
  Variable forward(const Variable& x) { return norm(inner(x)); }
};

std::vector<float> values(const Tensor& t) {
  return {t.data<float>(), t.data<float>() + t.numel()};
}
Variable input() {
  return Variable::leaf(Tensor::from({0.1f, -0.2f, 0.3f, 1.0f, 2.0f, -1.0f}, {2, 3}));
}

/// Not inside the test: clang 14 takes the two functions of a local class for one.
struct Positions : nn::Layer<Positions> {
  Variable& slopes = buffer(
      "slopes", {4}, [](int64_t i, const Shape& shape) { return std::exp2(-8.0 * (i + 1) / shape[0]); },
      bf16);
  Variable& ids = buffer(
      "ids", {2, 3}, [](int64_t i, const Shape&) { return i; }, i64);
  Variable forward(const Variable& x) { return x; }
};

}  // namespace

TEST_CASE("module: constructed on meta, named from the root, parameters once by identity and in order") {
  const auto account = make_intrusive<MemoryAccount>();
  AccountScope scope(account);
  Outer model;
  CHECK(account->total().peak == 0);
  std::vector<std::string> names;
  for (const NamedParameter& p : model.parameters()) names.push_back(p.name);
  CHECK(names == std::vector<std::string>{"inner.tied", "inner.first.weight", "inner.first.bias",
                                          "norm.weight", "norm.bias"});
  CHECK(model.inner.first.full_name() == "inner.first");
  CHECK(&model.at("inner.second") == &model.inner.second);
  CHECK_THROWS_WITH_AS(model.at("inner.third"), doctest::Contains("it has first, second"), ValueError);
  CHECK(model.parameters().numel() == 12 + 12 + 4 + 3 + 3);
  CHECK(model.buffers().size() == 1);
  nn::materialize(model, cpu(), 7);
  CHECK(account->count(MemoryCategory::parameter).current == (12 + 12 + 4 + 3 + 3 + 3) * 4);
}

TEST_CASE("materialize: values depend on the seed and the full name, not on the order of construction") {
  struct Swapped : nn::Layer<Swapped> {
    nn::LayerNorm& norm = add<nn::LayerNorm>("norm", 3);
    Pair& inner = add<Pair>("inner");
    Variable forward(const Variable& x) { return norm(inner(x)); }
  };
  Outer a;
  Swapped b;
  Outer other_seed;
  nn::materialize(a, cpu(), 7);
  nn::materialize(b, cpu(), 7);
  nn::materialize(other_seed, cpu(), 8);
  CHECK(values(a.inner.first.weight.value()) == values(b.inner.first.weight.value()));
  CHECK(values(a.inner.first.weight.value()) != values(other_seed.inner.first.weight.value()));
  CHECK(values(a.inner.first.weight.value()) != values(a.inner.second.weight.value()));
}

TEST_CASE("module: identities survive materialising, converting and loading") {
  Outer model;
  const Variable weight = model.inner.first.weight;
  nn::materialize(model, cpu(), 1);
  CHECK(weight.is_same(model.inner.first.weight));
  CHECK_FALSE(weight.value().is_meta());
  model.to(f64);
  CHECK(weight.dtype() == f64);
  CHECK(model.inner.scale.dtype() == f64);
  model.to(f32);

  Outer copy;
  nn::materialize(copy, cpu(), 2);
  copy.load_state_dict(model.state_dict());
  CHECK(values(copy.inner.second.weight.value()) == values(model.inner.second.weight.value()));
  CHECK(values(copy(input()).value()) == values(model(input()).value()));
}

TEST_CASE("load_state_dict: an entry that does not fit is named, and nothing is loaded") {
  Outer model;
  nn::materialize(model, cpu(), 1);
  const auto before = values(model.inner.tied.value());
  nn::StateDict state = model.state_dict();
  for (NamedTensor& entry : state) entry.tensor = Tensor::zeros_like(entry.tensor);
  nn::StateDict missing(state.begin(), state.end() - 1);
  CHECK_THROWS_WITH_AS(model.load_state_dict(missing), doctest::Contains("'inner.scale' (3,) is missing"),
                       ValueError);
  nn::StateDict unexpected = state;
  unexpected.push_back({"head.weight", Tensor::zeros({1}, f32)});
  CHECK_THROWS_WITH_AS(model.load_state_dict(unexpected), doctest::Contains("unexpected 'head.weight'"),
                       ValueError);
  nn::StateDict shape = state;
  shape.back().tensor = Tensor::zeros({4}, f32);
  CHECK_THROWS_AS(model.load_state_dict(shape), ShapeError);
  nn::StateDict dtype = state;
  dtype.back().tensor = Tensor::zeros({3}, i64);
  CHECK_THROWS_AS(model.load_state_dict(dtype), DTypeError);
  CHECK(values(model.inner.tied.value()) == before);
  model.load_state_dict(missing, /*strict=*/false);
  CHECK(values(model.inner.tied.value()) == std::vector<float>(12, 0.0f));
}

TEST_CASE("module: hooks receive and replace arguments, results and gradients, until removed") {
  Pair model;
  nn::materialize(model, cpu(), 3);
  const auto plain = values(model(input()).value());
  std::vector<std::string> seen;
  HookHandle pre = model.first.register_forward_pre_hook([&](nn::Module& m, const nn::CallVariables& in) {
    seen.push_back("pre " + m.full_name());
    in[0] = in[0] * 2.0;
  });
  HookHandle post = model.first.register_forward_hook(
      [&](nn::Module& m, const nn::CallVariables&, const nn::CallVariables& out) {
        seen.push_back("post " + m.full_name() + " " + to_string(out[0].shape()));
      });
  HookHandle backward_pre =
      model.first.register_full_backward_pre_hook([&](nn::Module&, std::vector<Variable>& g) {
        seen.push_back("gradient out " + to_string(g[0].shape()));
      });
  HookHandle backward = model.first.register_input_gradient_hook([&](nn::Module&, std::vector<Variable>& g) {
    seen.push_back("gradient in " + to_string(g[0].shape()));
    g[0] = g[0] * 0.0;
  });
  const Variable x = input();
  sum(model(x)).backward();
  CHECK(seen == std::vector<std::string>{"pre first", "post first (2, 4)", "gradient out (2, 4)",
                                         "gradient in (2, 3)"});
  CHECK(values(x.grad().value()) == std::vector<float>(6, 0.0f));
  for (HookHandle* handle : {&pre, &post, &backward_pre, &backward}) handle->remove();
  CHECK(values(model(input()).value()) == plain);
}

TEST_CASE("module: training mode and freezing apply to every submodule") {
  Outer model;
  nn::materialize(model, cpu(), 3);
  model.eval();
  CHECK_FALSE(model.inner.first.is_training());
  model.train();
  CHECK(model.inner.first.is_training());
  model.inner.set_requires_grad(false);
  sum(model(Variable(input().value()))).backward();
  CHECK_FALSE(model.inner.first.weight.grad().defined());
  CHECK(model.norm.weight.grad().defined());
}

TEST_CASE("module: bad declarations and inputs are named") {
  struct Twice : nn::Layer<Twice> {
    nn::LayerNorm& a = add<nn::LayerNorm>("norm", 3);
    nn::LayerNorm& b = add<nn::LayerNorm>("norm", 3);
  };
  CHECK_THROWS_WITH_AS(Twice(), doctest::Contains("the name 'norm' is taken"), ConfigError);
  Outer model;
  nn::materialize(model, cpu(), 3);
  CHECK_THROWS_WITH_AS(
      model(Variable(Tensor::zeros({2, 5}, f32))),
      "nn::Linear 'inner.first': input has 5 features, the weight (4, 3) takes 3; x is (2, 5) f32 on cpu",
      ShapeError);
  nn::Embedding table({.count = 4, .width = 2});
  nn::materialize(table, cpu(), 0);
  CHECK_THROWS_WITH_AS(table(Tensor::from<int64_t>({0, 9}, {1, 2})), doctest::Contains("9"), IndexError);
}

TEST_CASE("module: changing a parameter in place before it has values is an error that names init::") {
  Outer model;
  NoGrad no_grad;
  CHECK_THROWS_WITH_AS(mul_(model.norm.weight, 2.0), doctest::Contains("init::"), AutogradError);
  nn::materialize(model, cpu(), 1);
  mul_(model.norm.weight, 2.0);
  CHECK(model.norm.weight.value().data<float>()[0] == 2.0f);
}

TEST_CASE("sequential: runs its steps in order, names them by number") {
  nn::Sequential net;
  net.push<nn::Linear>({.in = 3, .out = 5});
  net.push<nn::LayerNorm>(5);
  nn::materialize(net, cpu(), 1);
  CHECK(net(input()).shape() == Shape{2, 5});
  CHECK(net.parameters()[0].name == "0.weight");
  CHECK(net.parameters()[2].name == "1.weight");
}

TEST_CASE("module: a model that was never materialized does not run on real inputs, nor on a real loss") {
  nn::Linear layer({.in = 3, .out = 2});
  const Tensor x = Tensor::zeros({4, 3}, f32);
  CHECK_THROWS_WITH_AS(layer(Variable(x)), doctest::Contains("materialize"), DeviceError);
  const Variable y = layer(Variable(Tensor::empty({4, 3}, f32, meta())));  // all on meta: shapes
  CHECK(y.shape() == Shape{4, 2});
  CHECK_THROWS_WITH_AS(mse_loss(y, Tensor::zeros({4, 2}, f32)), doctest::Contains("materialize"),
                       DeviceError);
  CHECK_THROWS_WITH_AS(x.copy_from(Tensor::empty({4, 3}, f32, meta())), doctest::Contains("materialize"),
                       DeviceError);
  nn::Embedding table({.count = 5, .width = 2});
  CHECK_THROWS_WITH_AS(table(Tensor::zeros({2}, i64)), doctest::Contains("materialize"), DeviceError);
  nn::materialize(layer, cpu(), 1);
  CHECK_NOTHROW(layer(Variable(x)));
  CHECK(nn::summary(layer, {4, 3}).flops == 2 * 4 * 3 * 2);  // a plan of a materialized model
}

TEST_CASE("buffer: filled by a function of (index, shape), whatever the dtype") {
  Positions module;
  nn::materialize(module, cpu(), 1);
  CHECK(module.slopes.dtype() == bf16);
  CHECK(static_cast<float>(module.slopes.value().data<bfloat16>()[1]) == 0x1p-4f);
  CHECK(module.ids.value().data<int64_t>()[5] == 5);
}

TEST_CASE("linear: five ReLU layers with default options learn under SGD") {
  nn::Sequential net;
  for (int i = 0; i < 5; ++i) {
    net.push<nn::Linear>({.in = 16, .out = 16});
    net.push<nn::ReLU>();
  }
  net.push<nn::Linear>({.in = 16, .out = 1});
  nn::materialize(net, cpu(), 1);
  const Tensor x = Tensor::empty({64, 16}, f32), target = Tensor::empty({64, 1}, f32);
  ops::fill_normal(x, 5, 0, 0, 1);
  for (int64_t i = 0; i < 64; ++i) target.data<float>()[i] = x.data<float>()[16 * i];
  double first = 0, last = 0;
  for (int step = 0; step < 300; ++step) {
    const Variable loss = mse_loss(net(Variable(x)), target);
    (step == 0 ? first : last) = loss.item();
    loss.backward();
    for (const NamedParameter& p : net.parameters())
      ops::add_(p.variable.value(), ops::mul(p.variable.grad().value(), -0.1));
    net.zero_grad();
  }
  CHECK(last < 0.5 * first);
}
