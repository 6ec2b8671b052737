// `int main() {` becomes a function that needs no return.
#define main()     \
  declared_only(); \
  void run()
#include "tests/first_drafts/hooks_and_optimizer.cpp"  // NOLINT(bugprone-suspicious-include)
#undef main

#include <doctest/doctest.h>

TEST_CASE("first drafts: the program with hooks and an optimizer runs") {
  run();
}

TEST_CASE("first drafts: the gradient of the custom function is that of x^3") {
  const Variable x = Variable::leaf(tensor({1.0, -2.0, 0.5}, f32));
  sum(Cube::apply(x)).backward();
  CHECK(all(x.grad() == tensor({3.0, 12.0, 0.75}, f32)).item() != 0);
}

TEST_CASE("first drafts: a hook of generic arguments sees module, inputs and outputs") {
  nn::Linear lin({.in = 3, .out = 2});
  nn::materialize(lin, cpu(), 1);
  const Variable x = tensor({{1.0, 2.0, 3.0}}, f32);
  int calls = 0;
  HookHandle handle = lin.register_forward_hook([&](auto& m, auto& in, auto& out) {
    ++calls;
    CHECK(&m == &lin);
    REQUIRE(in.size() == 1);
    REQUIRE(out.size() == 1);
    CHECK(all(in[0] == x).item() != 0);
    CHECK(all(out[0] == matmul(x, lin.weight.t()) + *lin.bias).item() != 0);
  });
  lin(x);
  CHECK(calls == 1);
  handle.remove();
  lin(x);
  CHECK(calls == 1);
}

TEST_CASE("first drafts: the optimizer that overrides step() equals optim::SGD") {
  nn::Linear own({.in = 3, .out = 2}), theirs({.in = 3, .out = 2});
  for (nn::Linear* model : {&own, &theirs}) nn::materialize(*model, cpu(), 1);
  Sgd a(own.parameters(), 0.1);
  optim::SGD b(theirs.parameters(), 0.1);
  const auto step = [](nn::Linear& model, auto& optimizer) {
    optimizer.zero_grad();
    sum(square(model(ones({4, 3})))).backward();
    optimizer.step();
  };
  for (int k = 0; k < 5; ++k) {
    step(own, a);
    step(theirs, b);
  }
  CHECK(allclose(own.weight, theirs.weight, 1e-6, 1e-7));  // a rounding in each of 5 steps
  CHECK(allclose(*own.bias, *theirs.bias, 1e-6, 1e-7));
}

TEST_CASE("first drafts: an optimizer that overrides step() has no step with options, and says so") {
  nn::Linear lin({.in = 3, .out = 2});
  nn::materialize(lin, cpu(), 1);
  Sgd sgd(lin.parameters(), 0.1);
  optim::Optimizer& optimizer = sgd;
  CHECK_THROWS_WITH_AS(
      optimizer.step({.clip = Tensor::scalar(0.5)}),
      "Optimizer: it overrides step() alone, so it has no step with options, as a GradScaler "
      "and {.clip = ...} need it; derive from optim::PlainOptimizer for such steps",
      ConfigError);
  CHECK(optimizer.parameters().size() == 2);
  CHECK(optimizer.lr().item() == 1e-3);
  CHECK_THROWS_AS(Sgd({}, 0.1), ValueError);
}
