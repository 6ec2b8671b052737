// Forms that are typed by habit: modules in braces, hooks of calls with Tensors, parameters by value.

#include <tessera/tessera.h>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tessera;

TEST_CASE("typed forms: modules in braces") {
  nn::Sequential net({nn::Linear(2, 4), nn::ReLU(), nn::Linear(4, 1)});
  nn::materialize(net, cpu(), 1);
  CHECK(net.size() == 3);
  CHECK(net(zeros(5, 2)).shape() == Shape{5, 1});
  CHECK(net.parameters()[0].name == "0.weight");
  nn::Sequential copied = {nn::Linear(2, 4), nn::ReLU()};
  copied.append(nn::Linear(4, 3));
  nn::materialize(copied, cpu(), 1);
  CHECK(copied(zeros(1, 2)).shape() == Shape{1, 3});
  nn::ModuleList list({nn::Linear(2, 2), nn::Linear(2, 3)});
  list.append(nn::Linear(3, 4));
  nn::materialize(list, cpu(), 1);
  CHECK(list(zeros(1, 2)).shape() == Shape{1, 4});
  nn::ModuleList<> any({nn::Linear(2, 2), nn::ReLU()});
  CHECK(any.size() == 2);
  nn::ModuleDict<> heads{{"classes", nn::Linear(2, 5)}, {"activation", nn::ReLU()}};
  CHECK(heads.keys() == std::vector<std::string>{"classes", "activation"});
  CHECK_THROWS_AS((nn::ModuleDict<>{{"a", nn::ReLU()}, {"a", nn::ReLU()}}), ConfigError);
}

TEST_CASE("hooks: a Tensor is an input where the module takes a Variable") {
  nn::Linear layer(2, 2);
  nn::materialize(layer, cpu(), 1);
  std::vector<Shape> inputs;
  layer.register_forward_hook([&inputs](nn::Module&, const nn::CallVariables& in, const nn::CallVariables&) {
    inputs.push_back(in[0].shape());
  });
  auto doubled =
      layer.register_forward_pre_hook([](nn::Module&, const nn::CallVariables& in) { return in[0] * 2.0f; });
  const Tensor x = ones(3, 2);
  const Tensor with_hook = layer(x).value();
  doubled.remove();
  CHECK(inputs == std::vector<Shape>{Shape{3, 2}});
  CHECK(with_hook.array_equal(layer(x * 2.0f).value()));
  CHECK(x.array_equal(ones(3, 2)));
}

TEST_CASE("hooks: a full backward hook is called for an input that nothing else holds") {
  nn::Linear layer(2, 2);
  nn::materialize(layer, cpu(), 1);
  std::vector<Shape> gradients;
  layer.register_full_backward_hook(
      [&](nn::Module&, std::vector<Variable>& in, const std::vector<Variable>& out) {
        gradients.push_back(in[0].shape());
        gradients.push_back(out[0].shape());
      });
  layer(Variable::leaf(ones(3, 2))).sum().backward();
  CHECK(gradients == std::vector<Shape>{Shape{3, 2}, Shape{3, 2}});
}

TEST_CASE("parameters by value") {
  struct Scaled : nn::Layer<Scaled> {
    Variable& scale = parameter("scale", tensor({1.0f, 2.0f}));
    Variable forward(const Variable& x) const { return x * scale; }
  };
  Scaled scaled;
  CHECK(scaled.parameters().size() == 1);
  nn::materialize(scaled, cpu(), 1);
  CHECK(scaled.scale.requires_grad());
  CHECK(scaled(ones(2)).value().array_equal(tensor({1.0f, 2.0f})));
  for (const auto& p : scaled.parameters()) CHECK(!p.grad().defined());
  struct Undefined : nn::Layer<Undefined> {
    Variable& scale = parameter("scale", Tensor());
    Variable forward(const Variable& x) const { return x * scale; }
  };
  CHECK_THROWS_AS(Undefined(), ValueError);
}
