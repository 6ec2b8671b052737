#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/graph/node.h"
#include "autograd/split_backward.h"

using namespace tessera;

namespace {

using List = std::vector<Variable>;

Variable leaf(double value) {
  return Variable::leaf(Tensor::scalar(value));
}

}  // namespace

TEST_CASE("hooks of an operation: order, arguments and replaced gradients") {
  const Variable a = leaf(2), b = leaf(3);
  const Variable y = a * b;
  CHECK(y.grad_fn() == y.node());
  CHECK(a.grad_fn() == nullptr);
  std::string order;
  y.register_hook([&](const Variable& gradient) {
    order += "output ";
    CHECK(gradient.item() == 2);
    return gradient * 10;
  });
  y.grad_fn()->register_prehook([&](const List& grad_outputs) -> List {
    order += "before ";
    REQUIRE(grad_outputs.size() == 1);
    CHECK(grad_outputs[0].item() == 20);
    return {grad_outputs[0] * 10};
  });
  HookHandle handle =
      y.grad_fn()->register_hook([&](const List& grad_inputs, const List& grad_outputs) -> List {
        order += "after";
        REQUIRE(grad_inputs.size() == 2);
        CHECK(grad_outputs[0].item() == 200);
        CHECK(grad_inputs[0].item() == 600);
        return {grad_inputs[0] + 1, grad_inputs[1]};
      });
  (y * 2).backward({.retain_graph = true});
  CHECK(order == "output before after");
  CHECK(a.grad().item() == 601);
  CHECK(b.grad().item() == 400);
  handle.remove();
  handle.remove();
  a.set_grad({});
  (y * 2).backward();
  CHECK(a.grad().item() == 600);
}

TEST_CASE("hooks of an operation: an empty list changes nothing, inputs without a gradient are undefined") {
  const Variable a = leaf(2), b = leaf(3);
  const Variable y = a * b;
  int calls = 0;
  y.grad_fn()->register_prehook([&](const List&) {
    ++calls;
    return List();
  });
  y.grad_fn()->register_hook([&](const List& grad_inputs, const List&) {
    CHECK(grad_inputs[0].defined());
    CHECK_FALSE(grad_inputs[1].defined());
    ++calls;
    return List();
  });
  CHECK(grad(y, {a})[0].item() == 3);
  CHECK(calls == 2);
}

TEST_CASE("hooks of an operation: a rule that writes the leaf's gradient leaves it to the hook") {
  const Variable w = Variable::leaf(Tensor::from({1.0, 2.0}, {1, 2})), x = Tensor::from({3.0, 4.0}, {1, 2});
  for (int i = 0; i < 2; ++i) {  // also where a gradient is there already
    const Variable y = sum(linear(x, w));
    Node* product = y.grad_fn()->edges[0].node.get();
    product->register_hook([](const List& grad_inputs, const List&) -> List {
      List replaced = grad_inputs;
      replaced[1] = replaced[1] * 2;
      return replaced;
    });
    y.backward();
  }
  CHECK(w.grad().value().data<double>()[0] == 12);
  CHECK(w.grad().value().data<double>()[1] == 16);
}

TEST_CASE("hooks of an operation: both passes of a split backward see the same gradients") {
  const Variable a = leaf(2), b = leaf(3);
  const Variable y = a * b;
  y.grad_fn()->register_prehook([](const List& grad_outputs) -> List { return {grad_outputs[0] * 10}; });
  SplitBackward split({&y, 1});
  CHECK(split.input_gradients({&a, 1})[0].item() == 30);
  split.weight_gradients();
  CHECK(b.grad().item() == 20);
}

TEST_CASE("hooks of an operation: with create_graph the replaced gradient has its history") {
  const Variable a = leaf(2);
  const Variable y = a * a;
  y.grad_fn()->register_prehook([&](const List& grad_outputs) -> List { return {grad_outputs[0] * a}; });
  const Variable first = grad(y, {a}, {.create_graph = true})[0];  // 2 a^2
  CHECK(first.item() == 8);
  CHECK(grad(first, {a})[0].item() == 8);
}

TEST_CASE("hooks of an operation: wrong results and empty functions are errors") {
  const Variable a = leaf(2);
  const Variable y = a * a;
  CHECK_THROWS_AS(y.grad_fn()->register_prehook({}), ValueError);
  CHECK_THROWS_AS(y.grad_fn()->register_hook({}), ValueError);
  HookHandle hook = y.grad_fn()->register_prehook([](const List& g) -> List { return {g[0], g[0]}; });
  CHECK_THROWS_WITH_AS(y.backward({.retain_graph = true}),
                       doctest::Contains("a hook of 'mul' was given 1 gradients and returned 2"),
                       AutogradError);
  hook.remove();
  hook = y.grad_fn()->register_prehook([](const List&) -> List { return {Tensor::from({1.0, 2.0})}; });
  CHECK_THROWS_WITH_AS(y.backward({.retain_graph = true}), doctest::Contains("'mul'"), ShapeError);
  hook.remove();
  hook = y.grad_fn()->register_hook([](const List& g, const List&) -> List {
    return {Tensor::scalar(1.0f), g[1]};
  });
  CHECK_THROWS_WITH_AS(y.backward({.retain_graph = true}), doctest::Contains("'mul'"), DTypeError);
}
