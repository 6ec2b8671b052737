#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/layers/dropout.h"

using namespace tessera;

TEST_CASE("an undefined Variable: every method throws a typed error") {
  const Variable none, x = Variable::leaf(Tensor::from({1.0, 2.0}));
  CHECK_FALSE(none.defined());
  CHECK_FALSE(none.requires_grad());
  CHECK_FALSE(none.detach().defined());
  CHECK_FALSE(none.is_same(x));
  CHECK_THROWS_WITH_AS(none.value(), doctest::Contains("undefined Variable"), ValueError);
  CHECK_THROWS_AS(none.dtype(), ValueError);
  CHECK_THROWS_AS(none.device(), ValueError);
  CHECK_THROWS_AS(none.shape(), ValueError);
  CHECK_THROWS_AS(none.ndim(), ValueError);
  CHECK_THROWS_AS(none.size(0), ValueError);
  CHECK_THROWS_AS(none.numel(), ValueError);
  CHECK_THROWS_AS(none.item(), ValueError);
  CHECK_THROWS_AS(none.set_requires_grad(true), ValueError);
  CHECK_THROWS_AS(none.is_leaf(), ValueError);
  CHECK_THROWS_AS(none.is_parameter(), ValueError);
  CHECK_THROWS_AS(none.name(), ValueError);
  CHECK_THROWS_AS(none.set_name("x"), ValueError);
  CHECK_THROWS_AS(none.node(), ValueError);
  CHECK_THROWS_AS(none.grad(), ValueError);
  CHECK_THROWS_AS(none.set_grad({}), ValueError);
  CHECK_THROWS_AS(none.set_grad(x), ValueError);
  CHECK_THROWS_AS(none.set_gradient_buffer({}), ValueError);
  CHECK_THROWS_AS(none.set_gradient_buffer(x.value()), ValueError);
  CHECK_THROWS_AS(none.grad_dtype(), ValueError);
  CHECK_THROWS_AS(none.set_grad_dtype(f32), ValueError);
  CHECK_THROWS_AS(none.retain_grad(), Error);
  CHECK_THROWS_AS(none.set_value(x.value()), ValueError);
  CHECK_THROWS_AS(none.backward(), Error);
  CHECK_THROWS_AS(none.backward(x), Error);
  CHECK_THROWS_AS(none.register_hook([](const Variable& g) { return g; }), Error);
  CHECK_THROWS_AS(none.register_post_accumulate_grad_hook([](const Variable&) {}), Error);
  CHECK_THROWS_AS(grad(x, {none}), Error);
  CHECK_THROWS_AS(grad(none, {x}), Error);
  const Variable inputs[] = {none};
  CHECK_THROWS_AS(backward({&x, 1}, {&x, 1}, {}, inputs), Error);
  CHECK_THROWS_AS(Variable::leaf({}), Error);
  CHECK_THROWS_AS(Variable::parameter({}), Error);
  CHECK_THROWS_AS(Variable::parameter({}, false), Error);
}

TEST_CASE("an undefined Variable: in-place forms, scalar operands and dropout throw a typed error") {
  // tests/ops tries every other function, from its rows.
  using Call = std::function<void(const Variable& none, const Variable& x)>;
  const std::vector<Call> calls{
      [](const Variable& n, const Variable& x) { add_(n, x); },
      [](const Variable& n, const Variable& x) { add_(x, n); },
      [](const Variable& n, const Variable& x) { sub_(n, x); },
      [](const Variable& n, const Variable& x) { sub_(x, n); },
      [](const Variable& n, const Variable& x) { mul_(n, x); },
      [](const Variable& n, const Variable& x) { mul_(x, n); },
      [](const Variable& n, const Variable&) { mul_(n, Scalar(1.0)); },
      [](const Variable& n, const Variable&) { add(n, Scalar(1.0)); },
      [](const Variable& n, const Variable&) { mul(n, Scalar(1.0)); },
      [](const Variable& n, const Variable&) { pow(n, Scalar(1.0)); },
      [](const Variable& n, const Variable&) { sub(Scalar(1.0), n); },
      [](const Variable& n, const Variable&) { div(Scalar(1.0), n); },
      [](const Variable& n, const Variable&) { n - 1.0; },
      [](const Variable& n, const Variable&) { n / 1.0; },
      [](const Variable& n, const Variable&) { clamp(n, Scalar(0.0), Scalar(1.0)); },
      [](const Variable& n, const Variable&) { dropout(n, 0.5, 1); },
      [](const Variable& n, const Variable&) { dropout(n, 0, 1); },
      [](const Variable& n, const Variable& x) { add_dropout(n, x, {}); },
      [](const Variable& n, const Variable& x) { add_dropout(x, n, {}); },
  };
  const Variable x = Variable::leaf(Tensor::from({1.0, 2.0})), h = x * 1.0;
  for (size_t i = 0; i < calls.size(); ++i) {
    CAPTURE(i);
    CHECK_THROWS_WITH_AS(calls[i](Variable(), h), doctest::Contains("undefined Variable"), ValueError);
  }
}
