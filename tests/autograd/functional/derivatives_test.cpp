#include "autograd/functional/derivatives.h"

#include <doctest/doctest.h>

#include "autograd/debug/gradcheck.h"
#include "autograd/functional/custom_function.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "tests/autograd/functional/goldens.h"

using namespace tessera;
namespace functional = autograd::functional;

namespace {

Tensor golden(const std::string& name) {
  return test::functional_golden(TESSERA_TEST_DATA_DIR, name);
}

Variable vector(const Variable& x) {
  return exp(x) * sum(x);
}

std::vector<Variable> pair(const Variable& a, const Variable& b) {
  return {tanh(matmul(a, b)), sum(a * transpose(b, 0, 1), {1})};
}

Variable scalar(const Variable& a, const Variable& b) {
  return sum(pow(matmul(a, b), 2)) + sum(sin(a) * transpose(b, 0, 1) * a);
}

Variable values(std::initializer_list<double> list) {
  return Tensor::from(list);
}

}  // namespace

TEST_CASE("functional: vjp, jvp and jacobian of one Variable are PyTorch's") {
  const Variable x = golden("in/x"), v = golden("in/vx");
  test::check_equal(functional::jacobian(vector, x), golden("vector/jacobian"));
  const auto [y, back] = functional::vjp(vector, x, v);
  test::check_equal(y, vector(x).value());
  test::check_equal(back, golden("vector/vjp"));
  const auto [z, forward] = functional::jvp(vector, x, v);
  test::check_equal(z, vector(x).value());
  test::check_equal(forward, golden("vector/jvp"));
  CHECK_FALSE(back.requires_grad());
  CHECK_FALSE(forward.requires_grad());
  CHECK_FALSE(y.requires_grad());
}

TEST_CASE("functional: vjp, jvp and jacobian of two Variables with two results are PyTorch's") {
  const Variable a = golden("in/a"), b = golden("in/b");
  const auto jacobian = functional::jacobian(pair, {a, b});
  REQUIRE(jacobian.size() == 2);
  for (size_t r = 0; r < 2; ++r)
    for (size_t c = 0; c < 2; ++c) test::check_equal(jacobian[r][c], golden(text("pair/jacobian", r, c)));
  const auto back = functional::vjp(pair, {a, b}, {golden("in/v0"), golden("in/v1")});
  const auto forward = functional::jvp(pair, {a, b}, {golden("in/va"), golden("in/vb")});
  CHECK(back.outputs.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    test::check_equal(back.products[i], golden(text("pair/vjp", i)));
    test::check_equal(forward.products[i], golden(text("pair/jvp", i)));
  }
}

TEST_CASE("functional: hessian, hvp and vhp are PyTorch's") {
  const Variable a = golden("in/a"), b = golden("in/b");
  const auto hessian = functional::hessian(scalar, {a, b});
  const auto hvp = functional::hvp(scalar, {a, b}, {golden("in/va"), golden("in/vb")});
  const auto vhp = functional::vhp(scalar, {a, b}, {golden("in/va"), golden("in/vb")});
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 2; ++j) test::check_equal(hessian[i][j], golden(text("scalar/hessian", i, j)));
    test::check_equal(hvp.products[i], golden(text("scalar/hvp", i)));
    test::check_equal(vhp.products[i], golden(text("scalar/vhp", i)));
  }
  test::check_equal(hvp.outputs[0], scalar(a, b).value());
  // A list, as an argument of the function.
  const auto of_list = [](const std::vector<Variable>& in) { return scalar(in[0], in[1]); };
  test::check_equal(functional::hessian(of_list, {a, b})[1][0], golden("scalar/hessian10"));
}

TEST_CASE("functional: the leaves keep their gradients, and NoGrad does not matter") {
  const Variable x = Variable::leaf(Tensor::from({1.0, 2.0}));
  NoGrad no_grad;
  const Variable h = functional::hessian([](const Variable& y) { return sum(y * y * y); }, x);
  CHECK(h.value().data<double>()[0] == 6);
  CHECK(h.value().data<double>()[1] == 0);
  CHECK(h.value().data<double>()[3] == 12);
  CHECK_FALSE(x.grad().defined());
  CHECK_FALSE(grad_mode());
}

TEST_CASE("functional: with create_graph the derivatives are differentiable") {
  const Variable x = Variable::leaf(golden("in/x").clone()), v = Variable::leaf(golden("in/vx").clone());
  const functional::Options graph{.create_graph = true};
  const auto f = [](const Variable& y) { return y * y * y * exp(y); };
  const auto s = [&f](const Variable& y) { return sum(f(y)); };
  const auto check = [&](const CheckedFunction& function) {
    const GradcheckResult result = gradcheck(function, std::vector<Variable>{x, v});
    CHECK_MESSAGE(result.passed, result.message);
  };
  using In = std::span<const Variable>;
  check([&](In in) -> std::vector<Variable> { return {functional::vjp(f, in[0], in[1], graph).product}; });
  check([&](In in) -> std::vector<Variable> { return {functional::jvp(f, in[0], in[1], graph).product}; });
  check([&](In in) -> std::vector<Variable> { return {functional::jacobian(f, in[0], graph)}; });
  check([&](In in) -> std::vector<Variable> { return {functional::hessian(s, in[0], graph)}; });
  check([&](In in) -> std::vector<Variable> { return {functional::hvp(s, in[0], in[1], graph).product}; });
  check([&](In in) -> std::vector<Variable> { return {functional::vhp(s, in[0], in[1], graph).product}; });
  check([&](In in) -> std::vector<Variable> { return {functional::vjp(f, in[0], in[1], graph).output}; });
}

TEST_CASE("functional: derivatives that are zero, and strict") {
  const Variable x = values({1, 2}), v = values({1, 1});
  const auto constant = [](const Variable&) { return values({3}); };
  const auto linear = [](const Variable& y) { return y * 2; };
  const auto first = [](const Variable& a, const Variable&) { return a * 2; };
  const functional::Options strict{.strict = true}, strict_graph{.create_graph = true, .strict = true};

  CHECK(functional::jacobian(constant, x).shape() == Shape{1, 2});
  test::check_equal(functional::jvp(constant, x, v).product, Tensor::from({0.0}));
  test::check_equal(functional::vjp(constant, x).product, Tensor::from({0.0, 0.0}));
  test::check_equal(functional::jacobian(first, {x, x})[0][1], Tensor::zeros({2, 2}, f64));
  test::check_equal(functional::jvp(linear, x, v).product, Tensor::from({2.0, 2.0}));
  const auto sum_of = [](const Variable& y) { return sum(y); };
  test::check_equal(functional::hessian(sum_of, x), Tensor::zeros({2, 2}, f64));
  test::check_equal(functional::hvp(sum_of, x, v).product, Tensor::from({0.0, 0.0}));
  test::check_equal(functional::vhp(sum_of, x, v).product, Tensor::from({0.0, 0.0}));

  CHECK_THROWS_WITH_AS(functional::jacobian(constant, x, strict),
                       doctest::Contains("result 0 of the function does not depend"), AutogradError);
  CHECK_THROWS_WITH_AS(functional::jacobian(first, {x, x}, strict),
                       doctest::Contains("does not depend on input 1"), AutogradError);
  CHECK_THROWS_AS(functional::vjp(first, {x, x}, {v}, strict), AutogradError);
  CHECK_THROWS_WITH_AS(functional::jacobian(linear, x, strict_graph),
                       doctest::Contains("derivative by input 0 does not depend"), AutogradError);
  CHECK_THROWS_AS(functional::hessian(sum_of, x, strict), AutogradError);
  CHECK_THROWS_AS(functional::hvp(sum_of, x, v, strict), AutogradError);
  CHECK_THROWS_AS(functional::vhp(sum_of, x, v, strict), AutogradError);
  CHECK_NOTHROW(functional::jacobian(linear, x, strict));
}

TEST_CASE("functional: wrong arguments") {
  const Variable x = values({1, 2});
  const auto twice = [](const Variable& y) { return y * 2; };
  CHECK_THROWS_WITH_AS(functional::vjp(twice, x), doctest::Contains("v may be left out"), ValueError);
  CHECK_THROWS_WITH_AS(functional::jvp(twice, x), doctest::Contains("v may be left out"), ValueError);
  CHECK_THROWS_WITH_AS(functional::vjp(twice, x, values({1})), doctest::Contains("v[0] has shape (1,)"),
                       ShapeError);
  CHECK_THROWS_AS(functional::jvp(twice, x, Tensor::from({1.0f, 1.0f})), DTypeError);
  CHECK_THROWS_WITH_AS(functional::vjp(pair, {x, x, x}), doctest::Contains("takes 2 Variables, and 3 inputs"),
                       ValueError);
  CHECK_THROWS_WITH_AS(functional::jacobian(pair, std::vector<Variable>{}),
                       doctest::Contains("at least one input"), ValueError);
  const Variable m = golden("in/v0");
  CHECK_THROWS_WITH_AS(functional::vjp(pair, {m, m}, {m}), doctest::Contains("each result, 2, got 1"),
                       ValueError);
  CHECK_THROWS_WITH_AS(functional::hessian(twice, x), doctest::Contains("one result of one element"),
                       ShapeError);
  CHECK_THROWS_AS(functional::hvp(twice, x, x), ShapeError);
  CHECK_THROWS_AS(functional::vhp(twice, x, x), ShapeError);
  CHECK_THROWS_AS(functional::jacobian(twice, Tensor::from({int64_t(1)})), DTypeError);
  CHECK_THROWS_WITH_AS(functional::jacobian([](const Variable&) { return Variable(); }, x),
                       doctest::Contains("result 0 of the function is undefined"), ValueError);
}

TEST_CASE("functional: custom functions inside, also in forward mode") {
  const auto cube = autograd::function(
      "cube",
      [](autograd::Context& ctx, const Variable& x) {
        ctx.save(x);
        return x * x * x;
      },
      [](autograd::Context& ctx, const Variable& dy) {
        const Variable x = ctx.saved(0);
        return dy * x * x * 3;
      });
  const Variable x = values({2});
  CHECK(functional::jvp(cube, x).product.item() == 12);
  CHECK(functional::hessian(cube, x).item() == 12);
  CHECK(functional::hvp(cube, x).product.item() == 12);
}
