#include "nn/clone.h"

#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "nn/layers/activation.h"
#include "nn/layers/attention.h"
#include "nn/layers/containers.h"
#include "nn/layers/dropout.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"

using namespace tessera;

namespace {

struct NetOptions {
  int64_t width = 4;
};

/// Containers of every kind, tied weights, a buffer.
struct Net : nn::Layer<Net, NetOptions> {
  using Layer::Layer;
  nn::Linear& in = add<nn::Linear>("in", {.in = o.width, .out = o.width});
  nn::Sequential& act = add("act", nn::Sequential{nn::ReLU(), nn::Dropout(0.5)});
  nn::ModuleList<nn::Linear>& layers = add<nn::ModuleList<nn::Linear>>("layers");
  nn::ModuleList<>& any = add<nn::ModuleList<>>("any");
  nn::ModuleDict<>& heads = add<nn::ModuleDict<>>("heads");
  Variable& tied = share_parameter("tied", in.weight);
  Variable& scale = buffer("scale", {o.width}, init::constant(2));
  Variable forward(const Variable& x) const { return layers(act(in(x))) * scale; }
};

/// A constructor from something else than options.
struct Wide : nn::Layer<Wide> {
  nn::Linear& fc;
  explicit Wide(int64_t width) : fc(add("fc", nn::Linear(width, width))) {}
  Variable forward(const Variable& x) const { return fc(x); }
};

std::vector<float> values(const Variable& x) {
  return {x.value().data<float>(), x.value().data<float>() + x.numel()};
}

Variable input() {
  return Variable(Tensor::from({0.5f, -1.0f, 2.0f}, {1, 3}));
}

}  // namespace

TEST_CASE("clone: values, modes, freezing, ties and pushed modules; nothing is shared") {
  Net net({.width = 3});
  net.layers.push({.in = 3, .out = 3});
  net.layers.push(nn::Linear(3, 3, false));
  net.act.push("last", nn::Softmax({.dim = -1}));
  net.any.push(nn::Dropout(0.25));
  net.heads.insert("a", nn::CausalSelfAttention({.width = 4, .heads = 2}));
  nn::materialize(net, cpu(), 1);
  net.eval();
  net.layers[0].requires_grad_(false);
  net.act[1].as<nn::Dropout>()->o.probability = 0.125;
  int calls = 0;
  net.register_forward_hook([&](auto&, auto&, auto&) { ++calls; });
  const Variable y = net(input());
  sum(y).backward();

  Net copy = nn::clone(net);
  CHECK(to_string(copy) == to_string(net));
  CHECK(values(copy(input())) == values(y));
  CHECK(calls == 1);  // hooks are not copied
  CHECK(!copy.in.weight.grad().defined());
  CHECK(!copy.is_training());
  CHECK(!copy.layers[0].weight.requires_grad());
  CHECK(copy.layers[1].weight.requires_grad());
  CHECK(copy.tied.is_same(copy.in.weight));
  CHECK(copy.parameters().size() == net.parameters().size());
  CHECK(copy.act[1].as<nn::Dropout>()->o.probability == 0.125);
  CHECK(copy.heads["a"].as<nn::CausalSelfAttention>()->o.heads == 2);
  copy.scale.value().zero();
  copy.in.weight.value().zero();
  CHECK(values(net(input())) == values(y));
  CHECK(copy.layers[1].full_name() == "layers.1");
}

TEST_CASE("clone: a part of a model is a root, on meta it stays on meta, by pointer any type") {
  Net net;
  const std::unique_ptr<nn::Module> copy = nn::clone_module(net.in);
  CHECK(copy->full_name().empty());
  CHECK(copy->as<nn::Linear>()->weight.value().is_meta());
  Net other = nn::clone(net);
  nn::materialize(net, cpu(), 5);
  nn::materialize(other, cpu(), 5);
  CHECK(values(other.in.weight) == values(net.in.weight));
  net.to(f64);
  CHECK(nn::clone(net).scale.dtype() == f64);
}

TEST_CASE("clone: what cannot be made again is named") {
  Wide wide(3);
  CHECK_THROWS_WITH_AS(
      nn::clone(wide),
      "clone: Wide '' cannot be constructed again: derive it from nn::Layer<Wide, Options> with "
      "a constructor from Options, or give it one without arguments",
      ConfigError);
  struct Parent : nn::Layer<Parent> {
    void extend() { add("more", nn::ReLU()); }
  };
  Parent parent;
  parent.extend();
  CHECK_THROWS_WITH_AS(nn::clone_module(parent),
                       "clone: Parent '' has a child 'more' that its constructor does not make", ConfigError);
  Net net;
  nn::materialize(net, cpu(), 1);
  const nn::Module& base = net;
  CHECK_THROWS_AS(nn::clone_module(nn::Module()), ConfigError);
  CHECK(nn::clone_module(base)->kind() == "Net");
  nn::use_mixed_precision(net, bf16);
  CHECK_THROWS_WITH_AS(nn::clone(net), doctest::Contains("clone the module before nn::use_mixed_precision"),
                       ConfigError);
}
