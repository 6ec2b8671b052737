#include "autograd/functional/transforms.h"

#include <doctest/doctest.h>

#include "autograd/debug/gradcheck.h"
#include "autograd/functional/derivatives.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "tests/autograd/functional/goldens.h"

using namespace tessera;
namespace functional = autograd::functional;

namespace {

constexpr auto shared = std::nullopt;

Tensor golden(const std::string& name) {
  return test::functional_golden(TESSERA_TEST_DATA_DIR, name);
}

Variable vector(const Variable& x) {
  return exp(x) * sum(x);
}

Variable product(const Variable& w, const Variable& x) {
  return reshape(matmul(w, reshape(x, {-1, 1})), {-1});
}

Variable loss(const Variable& w1, const Variable& w2, const Variable& x, const Variable& y) {
  const Variable error = product(w2, tanh(product(w1, x))) - y;
  return mean(error * error);
}

const functional::VmapOptions per_sample{.in_dims = {shared, shared, 0, 0}};

}  // namespace

TEST_CASE("vmap: per-sample gradients are those of torch.func.vmap(grad)") {
  const Variable w1 = golden("in/w1"), w2 = golden("in/w2"), x = golden("in/xs"), y = golden("in/ys");
  const auto gradients = functional::vmap(functional::grad(loss, {0, 1}), per_sample)(w1, w2, x, y);
  REQUIRE(gradients.size() == 2);
  test::check_equal(gradients[0], golden("vmap/w1"));
  test::check_equal(gradients[1], golden("vmap/w2"));
  const auto alone = functional::vmap(functional::grad(loss, 1), per_sample);
  test::check_equal(alone(w1, w2, x, y), golden("vmap/w2"));
  test::check_equal(no_grad([&] { return alone(w1, w2, x, y); }), golden("vmap/w2"));
  const auto with_values = functional::vmap(functional::value_and_grad(loss), per_sample)(w1, w2, x, y);
  REQUIRE(with_values.size() == 2);
  CHECK(with_values[0].shape() == Shape{5});
  test::check_equal(with_values[1], golden("vmap/w1"));
}

TEST_CASE("vmap: dimensions of inputs and results, and derivatives inside and outside are PyTorch's") {
  const auto mixed = [](const Variable& x, const Variable& y) { return sin(x) * sum(y) + select(x, 0, 0); };
  const Variable columns = golden("in/columns"), xs = golden("in/xs"), ys = golden("in/ys");
  const Variable w1 = golden("in/w1");
  test::check_equal(functional::vmap(mixed, {.in_dims = {1, 0}, .out_dim = 1})(columns, ys),
                    golden("vmap/mixed"));
  test::check_equal(functional::vmap(mixed, {.in_dims = {-1, 0}, .out_dim = -1})(columns, ys),
                    golden("vmap/mixed"));
  test::check_equal(functional::vmap([&](const Variable& x) { return functional::jacobian(vector, x); })(xs),
                    golden("vmap/jacobian"));
  const auto hessian = [](const Variable& x) {
    return functional::hessian([](const Variable& v) { return sum(vector(v)); }, x);
  };
  test::check_equal(functional::vmap(hessian)(xs), golden("vmap/hessian"));
  const auto of_weight = [&](const Variable& w) {
    return functional::vmap([&](const Variable& x) { return sum(tanh(product(w, x))); })(xs);
  };
  test::check_equal(functional::jacobian(of_weight, w1), golden("vmap/of_jacobian"));
}

TEST_CASE("vmap: the result of vmap(grad) has a history") {
  const Variable w1 = Variable::leaf(golden("in/w1").clone());
  const Variable w2 = golden("in/w2"), x = golden("in/xs"), y = golden("in/ys");
  const Variable gradients = functional::vmap(functional::grad(loss), per_sample)(w1, w2, x, y);
  sum(gradients * gradients).backward();
  test::check_equal(w1.grad(), golden("vmap/second"));
  // Also by a Variable that the function captures.
  w1.set_grad({});
  const auto of_captured = [&](const Variable& v2, const Variable& xn, const Variable& yn) {
    return functional::grad([&](const Variable& v1) { return loss(v1, v2, xn, yn); })(w1);
  };
  const Variable again = functional::vmap(of_captured, {.in_dims = {shared, 0, 0}})(w2, x, y);
  sum(again * again).backward();
  test::check_equal(w1.grad(), golden("vmap/second"));
}

TEST_CASE("vmap: gradients against finite differences, by batched and by shared inputs") {
  const auto f = [](const Variable& w, const Variable& x) { return tanh(product(w, x)) * sum(x); };
  const Variable w = Variable::leaf(golden("in/w1").clone()), x = Variable::leaf(golden("in/xs").clone());
  const auto function = [&](std::span<const Variable> in) -> std::vector<Variable> {
    return {functional::vmap(f, {.in_dims = {shared, 0}})(in[0], in[1])};
  };
  const GradcheckResult first = gradcheck(function, std::vector<Variable>{w, x});
  const GradcheckResult second = gradgradcheck(function, std::vector<Variable>{w, x});
  CHECK_MESSAGE(first.passed, first.message);
  CHECK_MESSAGE(second.passed, second.message);
}

TEST_CASE("vmap: nested, of a list, several results, and integers") {
  const Variable x = golden("in/xs"), y = golden("in/ys");
  const auto outer = functional::vmap([&](const Variable& xn) {
    return functional::vmap([&](const Variable& yn) { return xn * sum(yn); })(y);
  });
  const Variable all = outer(x);
  CHECK(all.shape() == Shape{5, 5, 3});
  test::check_equal(select(select(all, 0, 1), 0, 2), (select(x, 0, 1) * sum(select(y, 0, 2))).value());
  const auto list = functional::vmap([](const std::vector<Variable>& in) -> std::vector<Variable> {
    return {sum(in[0]), in[0] * 2};
  })(std::vector<Variable>{x});
  REQUIRE(list.size() == 2);
  CHECK(list[0].shape() == Shape{5});
  CHECK(list[1].shape() == Shape{5, 3});
  const Variable labels = Tensor::from({int64_t(2), int64_t(0), int64_t(1), int64_t(2), int64_t(0)});
  const auto pick = [](const Variable& xn, const Variable& label) {
    return sum(index_select(xn, 0, label.value().reshape({1})));
  };
  const Variable picked = functional::vmap(functional::grad(pick))(x, labels);
  CHECK(picked.shape() == Shape{5, 3});
  CHECK(sum(picked).item() == 5);
  CHECK(picked.value().data<double>()[2] == 1);
}

TEST_CASE("grad: a function of a function, again and again") {
  const auto cube = [](const Variable& x) { return x * x * x; };
  const Variable x = Tensor::scalar(2.0);
  const auto first = functional::grad(cube);
  const auto second = functional::grad(first);
  const auto third = functional::grad(second);
  CHECK(first(x).item() == 12);
  CHECK(second(x).item() == 12);
  CHECK(third(x).item() == 6);
  CHECK_FALSE(no_grad([&] { return second(x); }).requires_grad());
  CHECK(no_grad([&] { return second(x); }).item() == 12);
  const auto both = functional::value_and_grad(cube)(x);
  CHECK(both[0].item() == 8);
  CHECK(both[1].item() == 12);
  const auto unused = functional::grad([](const Variable& a, const Variable&) { return a; }, 1);
  CHECK(unused(x, x).item() == 0);
}

TEST_CASE("vmap and grad: wrong arguments") {
  const auto add_both = [](const Variable& a, const Variable& b) { return a + b; };
  const Variable x = golden("in/xs"), y = golden("in/ys"), v = golden("in/x");
  CHECK_THROWS_WITH_AS(functional::vmap(add_both)(x, v),
                       doctest::Contains("input 0 has 5 samples, and input 1"), ShapeError);
  CHECK_THROWS_WITH_AS(functional::vmap(add_both, {.in_dims = {0}})(x, x),
                       doctest::Contains("1 entries for 2"), ValueError);
  CHECK_THROWS_WITH_AS(functional::vmap(add_both, {.in_dims = {shared, shared}})(x, x),
                       doctest::Contains("at least one input"), ValueError);
  CHECK_THROWS_AS(functional::vmap(add_both, {.in_dims = {2, 0}})(x, x), IndexError);
  CHECK_THROWS_AS(functional::vmap(add_both)(x, Variable()), ValueError);
  const Variable none = Tensor::zeros({0, 3}, f64);
  CHECK_THROWS_WITH_AS(functional::vmap(add_both)(none, none), doctest::Contains("no samples"), ValueError);
  int calls = 0;
  const auto grows = [&](const Variable& a) { return ++calls == 1 ? a : sum(a); };
  CHECK_THROWS_AS(functional::vmap(grows, {.always_loop = true})(x), ShapeError);
  CHECK_THROWS_WITH_AS(functional::grad(add_both)(x, x), doctest::Contains("one result of one element"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(functional::grad(loss, 4)(x, x, x, x), doctest::Contains("by argument 4 of 4"),
                       IndexError);
  CHECK_THROWS_AS(functional::grad([](const Variable& a) { return a; })(Tensor::scalar(int64_t(1))),
                  DTypeError);
  CHECK_THROWS_AS(functional::grad(loss, std::vector<size_t>{})(x, x, x, x), ValueError);
}
