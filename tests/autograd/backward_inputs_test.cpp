#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "autograd/variable.h"

using namespace tessera;

namespace {

void backward_to(const Variable& root, const std::vector<Variable>& inputs, BackwardOptions options = {}) {
  backward({&root, 1}, {}, options, inputs);
}

Variable leaf(double value) {
  return Variable::leaf(Tensor::scalar(value));
}

}  // namespace

TEST_CASE("backward: gradients of computed inputs are added to their grad(), others stay as they are") {
  const Variable a = leaf(2), b = leaf(3);
  const Variable h = a * b, k = h * h, y = k * a;
  backward_to(y, {h, b}, {.retain_graph = true});
  CHECK(h.grad().item() == 24);  // 2 h a
  CHECK(b.grad().item() == 48);  // 24 a
  CHECK_FALSE(a.grad().defined());
  CHECK_FALSE(k.grad().defined());
  backward_to(y, {h}, {.retain_graph = true});
  CHECK(h.grad().item() == 48);
  CHECK(b.grad().item() == 48);
  // A later backward to leaves does not retain it.
  y.backward();
  CHECK(h.grad().item() == 48);
  CHECK(a.grad().item() == 108);  // h^2 + 24 b
}

TEST_CASE(
    "backward: a computed input that retains its gradient, the root itself, and an input that is not used") {
  const Variable a = leaf(2), b = leaf(3);
  const Variable h = a * b;
  h.retain_grad();
  backward_to(h * h, {h});
  CHECK(h.grad().item() == 12);
  const Variable y = a * a, g = Tensor::scalar(5.0);
  backward({&y, 1}, {&g, 1}, {}, {&y, 1});
  CHECK(y.grad().item() == 5);
  CHECK_FALSE(y.grad().is_same(g));
  CHECK_FALSE(y.grad().value().shares_storage(g.value()));
  const Variable unused = b * b;
  backward_to(a * a, {unused, a});
  CHECK_FALSE(unused.grad().defined());
  CHECK(a.grad().item() == 4);
}

TEST_CASE("backward: computed inputs with create_graph, and hooks on them") {
  const Variable a = leaf(2);
  const Variable h = a * 3;
  int calls = 0;
  h.register_hook([&calls](const Variable& gradient) {
    ++calls;
    return gradient * 2;
  });
  backward_to(h * h * h, {h}, {.create_graph = true});
  CHECK(calls == 1);
  CHECK(h.grad().item() == 216);  // twice 3 h^2
  CHECK(h.grad().requires_grad());
  CHECK(grad(h.grad(), {a})[0].item() == 2 * 12 * 6 * 3);  // the hook doubles this one too
}

TEST_CASE("backward: an input that requires no gradient is an error") {
  const Variable a = leaf(2), c = Tensor::scalar(1.0);
  CHECK_THROWS_WITH_AS(backward_to(a * a, {c}), doctest::Contains("requires no gradient"), AutogradError);
}
