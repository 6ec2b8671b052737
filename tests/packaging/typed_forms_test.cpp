// Forms that are typed by habit: sizes without braces, short names, hooks that return nothing.

#include <tessera/tessera.h>

#include <doctest/doctest.h>

#include <vector>

#include "tests/support/error_text.h"

using namespace tessera;

TEST_CASE("typed forms: sizes and dimensions without braces") {
  const Tensor x = arange(6).to(float32);
  CHECK(zeros(2, 3).shape() == Shape{2, 3});
  CHECK(ones(2, 3, 1).numel() == 6);
  CHECK(empty(2, 0).numel() == 0);
  CHECK(randn(2, 3).shape() == rand(2, 3).shape());
  CHECK(x.view(2, -1).shape() == Shape{2, 3});
  CHECK(x.reshape(3, 2).permute(1, 0).shape() == Shape{2, 3});
  CHECK(x.view({1, 6}).expand(4, -1).shape() == Shape{4, 6});
  CHECK(x.repeat(2, 1).array_equal(x.repeat({2, 1})));
  CHECK(x.tile(2, 2).shape() == Shape{2, 12});
  CHECK(x.view(2, 3).flip(0, 1).array_equal(x.view(2, 3).flip({0, 1})));
  const Variable v(x, true);
  CHECK(v.view(2, 3).permute(1, 0).reshape(1, 6).expand(2, 6).requires_grad());
}

TEST_CASE("typed forms: methods by PyTorch's names") {
  const Tensor x = arange(6).to(f64).view(2, 3);
  CHECK(x.dtype() == float64);
  CHECK(x.T().array_equal(x.transpose(0, 1)));
  CHECK(arange(8).view(2, 2, 2).mT().array_equal(arange(8).view(2, 2, 2).transpose(1, 2)));
  CHECK(x.equal(x.clone()));
  CHECK(!x.equal(x + 1.0));
  CHECK(x[1][2].item<float>() == 5.0f);
  CHECK(arange(3)[2].item<int>() == 2);
  CHECK(Variable(x)[1][1].item<double>() == 4.0);
  CHECK(x.to("cpu").shape() == x.shape());
  CHECK_THROWS_AS(x.to("tpu"), ValueError);
  CHECK(x.var(0, {.keepdim = true}).shape() == Shape{1, 3});
  CHECK(x.var({}, {.correction = 0}).item() == doctest::Approx(35.0 / 12));
}

TEST_CASE("typed forms: a leaf by its flag, a hook that returns nothing, the gradient of one input") {
  const Variable x(ones({2}), true), constant(ones({2}), false);
  CHECK(x.is_leaf());
  CHECK(x.requires_grad());
  CHECK(!constant.requires_grad());
  std::vector<double> seen;
  const Variable y = x * 3.0f;
  y.register_hook([&seen](Variable gradient) { seen.push_back(gradient[0].item()); });
  y.requires_grad_(true);  // it does already
  CHECK(grad(y.sum(), x)[0].value().array_equal(full({2}, 3.0f)));
  CHECK(seen == std::vector<double>{1.0});
  CHECK_THROWS_AS(y.requires_grad_(false), AutogradError);
}

TEST_CASE("norms have second derivatives at coordinates of 0") {
  const Tensor x = tensor({3.0, 0.0, 4.0}, f64);
  const auto at = [](const Tensor& h, int64_t i, int64_t j) { return h[i][j].item(); };
  const Tensor of_norm =
      autograd::functional::hessian([](const Variable& a) { return a.norm(); }, Variable(x)).value();
  // (delta_ij - x_i x_j / n^2) / n
  CHECK(at(of_norm, 1, 1) == doctest::Approx(0.2));
  CHECK(at(of_norm, 0, 0) == doctest::Approx((1 - 9.0 / 25) / 5));
  CHECK(at(of_norm, 0, 2) == doctest::Approx(-12.0 / 125));
  const Variable origin(zeros({2}, f64), true);
  const Variable first = grad(origin.norm(), {origin}, {.create_graph = true})[0];
  CHECK(first.value().array_equal(zeros({2}, f64)));
  CHECK(grad(first.sum(), origin)[0].value().array_equal(zeros({2}, f64)));
}

TEST_CASE("lists of an empty dimension, diagonals and ranges") {
  const Tensor none = zeros({0, 2});
  CHECK(none.chunk(3).size() == 3);
  CHECK(none.split(2).size() == 1);
  CHECK(none.split(2)[0].shape() == Shape{0, 2});
  CHECK(message_of<ShapeError>([] {
          einsum("ii->i", {zeros({3, 1})});
        }) == "einsum: 'i' of \"ii->i\" stands twice in one operand, with the extents 3 and 1");
  CHECK(arange(0, 0, -1).numel() == 0);
  CHECK(message_of<ValueError>([] { arange(0, 5, -1); }) == "arange: a step of -1 does not lead from 0 to 5");
}
