// Cases that the op table does not cover: scalars as operands, mixed dtypes, in-place forms, dropout.
#include <doctest/doctest.h>

#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "autograd/debug/gradcheck.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/layers/dropout.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/random/random_context.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

using UnaryFunction = std::function<Variable(const Variable&)>;
using BinaryFunction = std::function<Variable(const Variable&, const Variable&)>;

/// First and second derivatives against finite differences, at positive values.
void check_derivatives(const UnaryFunction& function) {
  const std::vector<Variable> x = {Variable::leaf(ops::linspace(0.3, 2.1, 6, f64).view({2, 3}))};
  const CheckedFunction checked = [&](std::span<const Variable> in) { return std::vector{function(in[0])}; };
  CHECK(gradcheck(checked, x).message == "");
  CHECK(gradgradcheck(checked, x).message == "");
}

}  // namespace

TEST_CASE("arithmetic with a scalar: first and second derivatives") {
  check_derivatives([](const Variable& x) { return x * x + 2; });
  check_derivatives([](const Variable& x) { return 2.5 + x * x; });
  check_derivatives([](const Variable& x) { return x * x - 0.5; });
  check_derivatives([](const Variable& x) { return 3 - x * x; });
  check_derivatives([](const Variable& x) { return x * x * -1.5; });
  check_derivatives([](const Variable& x) { return x * x / 4; });
  check_derivatives([](const Variable& x) { return 2 / x; });
  check_derivatives([](const Variable& x) { return pow(x, 3); });
  check_derivatives([](const Variable& x) { return pow(x, 0.5); });
  check_derivatives([](const Variable& x) { return pow(x, -1); });
  check_derivatives([](const Variable& x) { return pow(x, 0) * x; });
  check_derivatives([](const Variable& x) { return clamp(x * x, 0.5, 2.0); });
}

TEST_CASE("activations: second derivatives on both sides of 0") {
  for (const auto function : {gelu, gelu_tanh, silu, softplus, tanh, sigmoid, erf})
    check_derivatives([=](const Variable& x) { return function(x - 1.2); });
}

TEST_CASE("mixed dtypes: each operand's gradient has its own shape and dtype") {
  const BinaryFunction functions[] = {
      [](const Variable& a, const Variable& b) { return a + b; },
      [](const Variable& a, const Variable& b) { return a - b; },
      [](const Variable& a, const Variable& b) { return a * b; },
      [](const Variable& a, const Variable& b) { return a / b; },
      [](const Variable& a, const Variable& b) { return pow(a, b); },
      [](const Variable& a, const Variable& b) { return maximum(a, b); },
      [](const Variable& a, const Variable& b) { return lerp(a, b, 0.25); },
      [](const Variable& a, const Variable& b) { return addcmul(a, a, b, 2); },
      [](const Variable& a, const Variable& b) { return addcdiv(b, a, b, 2); },
      [](const Variable& a, const Variable& b) {
        return where(ops::full({2, 3}, true, boolean), a, b);
      },
  };
  for (const BinaryFunction& function : functions)
    for (const DType narrow : {bf16, f16}) {
      const Variable a = Variable::leaf(ops::full({2, 3}, 1.5, narrow)),
                     b = Variable::leaf(ops::full({3}, 2, f32));
      const Variable y = function(a, b);
      CHECK(y.dtype() == f32);
      y.backward(Variable(ops::ones({2, 3}, f32)));
      CHECK(a.grad().dtype() == narrow);
      CHECK(a.grad().shape() == Shape{2, 3});
      CHECK(b.grad().dtype() == f32);
      CHECK(b.grad().shape() == Shape{3});
    }
}

TEST_CASE("in place: add_, sub_ and mul_ have the gradients of their plain forms") {
  const Tensor start = ops::linspace(-1, 2, 6, f64).view({2, 3}), other = ops::linspace(0.5, 1.5, 3, f64);
  using InPlace = void (*)(const Variable&, const Variable&);
  using Plain = Variable (*)(const Variable&, const Variable&);
  const std::pair<InPlace, Plain> forms[] = {{add_, add}, {sub_, sub}, {mul_, mul}};
  for (const auto& [in_place, plain] : forms) {
    const Variable a = Variable::leaf(start), b = Variable::leaf(other), c = Variable::leaf(start.clone()),
                   d = Variable::leaf(other.clone());
    const Variable y = a * 2.0, dy = random_tensor({2, 3}, f64, 5);
    in_place(y, b);
    y.backward(dy);
    const Variable z = plain(c * 2.0, d);
    z.backward(dy);
    CHECK(largest_difference(y.value(), z.value()) == 0);
    CHECK(largest_difference(a.grad().value(), c.grad().value()) == 0);
    CHECK(largest_difference(b.grad().value(), d.grad().value()) == 0);
  }
  const Variable a = Variable::leaf(start), y = a * 1.0;
  mul_(y, 3);
  y.backward(Variable(ops::ones({2, 3}, f64)));
  CHECK(largest_difference(a.grad().value(), ops::full({2, 3}, 3, f64)) == 0);
}

TEST_CASE("cast: the gradient has the operand's dtype") {
  const Variable x = Variable::leaf(ops::ones({3}, bf16));
  const Variable y = cast(x, f32);
  CHECK(y.dtype() == f32);
  y.backward(Variable(ops::full({3}, 0.25, f32)));
  CHECK(x.grad().dtype() == bf16);
  CHECK(x.grad().value().select(0, 2).item() == 0.25);
  CHECK(cast(x, bf16).is_same(x));
}

TEST_CASE("dropout: the backward uses the forward's mask, also in another random context") {
  const Variable x = Variable::leaf(ops::ones({2, 50}, f64));
  Variable y;
  {
    RandomContextScope scope({.seed = 3, .step = 8, .samples = {4, 1}});
    y = dropout(x, 0.5, 77);
  }
  RandomContextScope later({.seed = 3, .step = 9, .samples = {0, 2}});
  y.backward(Variable(ops::full({2, 50}, 3, f64)));
  const double* kept = y.value().data<double>();
  const double* gradient = x.grad().value().data<double>();
  int zeros = 0;
  for (int i = 0; i < 100; ++i) {
    CHECK(gradient[i] == 3 * kept[i]);
    zeros += kept[i] == 0;
  }
  CHECK(zeros > 20);
  CHECK(zeros < 80);
}
