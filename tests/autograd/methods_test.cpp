#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

#include "autograd/debug/printing.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/nondifferentiable.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "tensor/functions.h"
#include "tensor/ops/creation/literal.h"

using namespace tessera;

namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && all(a == b).item_i64() != 0;
}
bool same(const Variable& a, const Variable& b) {
  return same(a.value(), b.value());
}

Variable leaf_of(std::initializer_list<double> values, const Shape& shape) {
  return Variable::leaf(Tensor::from(values, shape));
}

std::string printed(const Variable& x) {
  std::ostringstream stream;
  stream << x;
  return stream.str();
}

/// Calls methods of a Tensor or a Variable and compares them with functions.
template <class X>
void check_methods(const X& x) {  // (2, 3), positive
  CHECK(same(x.exp().log(), log(exp(x))));
  CHECK(same(x.add(2).mul(3).sub(1).div(2), (x + 2) * 3 / 2 - 0.5));
  CHECK(same(x.add(x).mul(x).sub(x).div(x), ((x + x) * x - x) / x));
  CHECK(same(x.pow(2), x * x));
  CHECK(same(x.pow(x), pow(x, x)));
  CHECK(same(x.maximum(1.5), max(x, 1.5)));
  CHECK(same(x.clamp(1, 2), x.clamp_min(1).clamp_max(2)));
  CHECK(same(x.clamp(std::nullopt, 2), x.minimum(2)));
  CHECK(same(x.sum(), sum(x)));
  CHECK(same(x.sum(-1), sum(x, {1})));
  CHECK(same(x.sum({0, 1}, true), sum(x, {}, true)));
  CHECK(same(x.mean(0, true), mean(x, {0}, true)));
  CHECK(same(x.amax(1), max(x, {1})));
  CHECK(same(x.amin(), x.min()));
  CHECK(same(x.amax({0, 1}), x.max()));
  CHECK(same(x.std(1), x.var(1).sqrt()));
  CHECK(same(x.std(0, {.keepdim = true, .correction = 0}), stddev(x, {0}, true, 0)));
  CHECK(same(x.norm(), x.square().sum().sqrt()));
  CHECK(same(x.matmul(x.t()), x.mm(x.transpose(0, 1))));
  CHECK(same(x.unsqueeze(0).bmm(x.t().unsqueeze(0)).squeeze(0), x.mm(x.t())));
  CHECK(same(x.view({3, 2}).view({-1}), x.flatten()));
  CHECK(same(x.view(-1), x.reshape(6)));
  CHECK(same(x.permute({1, 0}).contiguous().view_as(x), x.t().clone().view({2, 3})));
  CHECK(same(x.select(0, 0).unsqueeze(0).expand_as(x), x.narrow(0, 0, 1).expand({2, 3})));
  CHECK(same(x.unsqueeze(1).squeeze(), x));
  CHECK(same(x.softmax(-1).log(), x.softmax(1).log()));
  CHECK(x.log_softmax(-1).exp().allclose(x.softmax(-1)));
  CHECK(!x.allclose(x + 1));
  CHECK(same(x.cumsum(0), x.cumsum(-2)));
  CHECK(same(x.flip(1).flip({1}), x));
  CHECK(same(x.roll(1, 0), cat({x.narrow(0, 1, 1), x.narrow(0, 0, 1)})));
  CHECK(same(x.tril() + x.triu(1), x));
  CHECK(same(x.repeat({1, 2}), cat({x, x}, 1)));
  CHECK(same(x.sort(1, true).values, x.topk(3).values));
  CHECK(same(x.gather(1, x.argsort()), x.sort().values));
  CHECK(same(x.index_select(1, x.argmax(1)).sum(), x.index_select(1, argmax(x, 1)).sum()));
  const auto [values, indices] = x.max(1);
  CHECK(same(values, x.amax(1)));
  CHECK(same(indices, x.argmax(1)));
  CHECK(same(max(x, 1).values, values));
  CHECK(same(median(x, 1, true).values, x.median(1, true).values));
  const auto [a, b, c] = chunk<3>(x, -1);
  CHECK(same(cat({a, b, c}, -1), x));
  CHECK(same(x.template chunk<2>()[1], x.select(0, 1).view({1, 3})));
  CHECK_THROWS_WITH_AS(x.template chunk<4>(1), doctest::Contains("expected 4 chunks"), ShapeError);
  CHECK(same(stack({a, b}, 0).sum(), a.sum() + b.sum()));
  CHECK(split(x, {1, 2}, 1)[1].size(1) == 2);
  CHECK(x.split(2, 1)[1].size(1) == 1);
  CHECK(x.split({1, 2}, 1)[1].size(1) == 2);
  CHECK_THROWS_AS(x.split(0), ValueError);
  CHECK(x.unbind(1).size() == 3);
  CHECK(x.gt(1.5).any().item_i64() == 1);
  CHECK(same(x.masked_fill(x > 1.5, 0), x.where(x <= 1.5, 0)));
  CHECK(same(x.isfinite().logical_not(), x.isnan().logical_or(x.isinf())));
  CHECK(x.dim() == 2);
  CHECK(x.size() == Shape{2, 3});
  CHECK(x.template dims<2>()[1] == 3);
  CHECK(x.is_floating_point());
  CHECK(x.to(f32).to(cpu()).to(cpu(), f64).dtype() == f64);
  CHECK_THROWS_WITH_AS(x.mm(x.unsqueeze(0)), doctest::Contains("mm: expected 2 and 2 dimensions"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(x.dot(x), doctest::Contains("use matmul"), ShapeError);
  CHECK_THROWS_AS(x.unsqueeze(0).bmm(x.t().expand({2, 3, 2})), ShapeError);
  CHECK_THROWS_AS(x.unsqueeze(0).t(), ShapeError);
  CHECK_THROWS_AS(x.clamp(std::nullopt), ValueError);
}

}  // namespace

TEST_CASE("methods: those of a Tensor are the functions") {
  check_methods(Tensor::from({1.0, 2.5, 2.0, 1.5, 3.0, 0.5}, {2, 3}));
}

TEST_CASE("methods: those of a Variable are the functions, recorded") {
  const Variable x = leaf_of({1.0, 2.5, 2.0, 1.5, 3.0, 0.5}, {2, 3});
  check_methods(x);
  CHECK(x.exp().requires_grad());
  CHECK(same(grad(x.square().sum(), {x})[0], x * 2));
  CHECK(
      same(grad(x.t().contiguous().view(-1).dot(x.flatten().detach()), {x})[0], x.detach().view({3, 2}).t()));
}

TEST_CASE("methods: in place on a Tensor") {
  const Tensor x = Tensor::from({1.0, 4.0}), same_memory = x;
  CHECK(x.add_(1).mul_(2).sub_(2).div_(2).shares_storage(x));
  CHECK(same(x, Tensor::from({1.0, 4.0})));
  CHECK(same(x.sqrt_().pow_(2).neg_().abs_(), Tensor::from({1.0, 4.0})));
  CHECK(same(same_memory.clamp_(2), Tensor::from({2.0, 4.0})));
  CHECK(same(x.copy_(Tensor::from({7.0f})), Tensor::from({7.0, 7.0})));
  CHECK(same(x.fill_(2), Tensor::from({2.0, 2.0})));
  CHECK(same(x.zero_(), Tensor::from({0.0, 0.0})));
  CHECK_THROWS_WITH_AS(x.copy_(Tensor::from({1.0, 2.0, 3.0})), doctest::Contains("copy_"), ShapeError);
  CHECK_THROWS_AS(x.expand({2, 2}).exp_(), ValueError);
  CHECK_THROWS_AS(x.clamp_(std::nullopt), ValueError);
}

TEST_CASE("methods: compound assignment changes a Tensor and what shares its memory") {
  const Tensor x = Tensor::from({1.0, 2.0}), other = x;
  x += 1;
  x -= Tensor::from({1.0});
  x *= x;
  x /= 2;
  CHECK(same(other, Tensor::from({0.5, 2.0})));
}

TEST_CASE("methods: compound assignment of a computed Variable is recorded, as in PyTorch") {
  const Variable x = leaf_of({1.0, 2.0}, {2}), y = leaf_of({3.0, 4.0}, {2});
  Variable h = x * 2;
  h += y;
  h *= y;
  h -= x;
  h /= y;  // ((2 x + y) y - x) / y = 2 x + y - x / y
  h += 1;
  h *= 3;
  h -= 1;
  h /= 2;
  const auto gradients = grad(h.sum(), {x, y});
  CHECK(gradients[0].allclose((2 - 1 / y) * 1.5));
  CHECK(gradients[1].allclose((1 + x / (y * y)) * 1.5));
}

TEST_CASE("methods: compound assignment of a leaf throws while operations are recorded") {
  const Variable x = leaf_of({1.0, 2.0}, {2});
  CHECK_THROWS_WITH_AS(x += 1, doctest::Contains("x = x + y"), AutogradError);
  CHECK_THROWS_WITH_AS(x *= x, doctest::Contains("leaf that requires a gradient"), AutogradError);
  CHECK_THROWS_WITH_AS(x.exp_(), doctest::Contains("exp_"), AutogradError);
  CHECK_THROWS_WITH_AS(x.fill_(0), doctest::Contains("fill_"), AutogradError);
  CHECK_THROWS_AS(x.normal_(), AutogradError);
  {
    NoGrad no_grad;
    x += 1;
    x.mul_(2);
  }
  CHECK(same(x.value(), Tensor::from({4.0, 6.0})));
  const Variable constant = Tensor::from({1.0, 2.0});
  constant += x.detach();
  CHECK(same(constant.value(), Tensor::from({5.0, 8.0})));
  CHECK(!constant.requires_grad());
  constant += x;  // becomes differentiable
  CHECK(constant.requires_grad());
}

TEST_CASE("methods: detach_ makes a constant of a computed Variable and of a leaf") {
  const Variable x = leaf_of({1.0, 2.0}, {2}), h = x * 2;
  h.retain_grad();
  CHECK(!h.detach_().requires_grad());
  CHECK(h.is_leaf());
  CHECK(same(grad((h * x).sum(), {x})[0], h));
  const Variable view = (x * 2).narrow(0, 0, 1);
  CHECK_THROWS_WITH_AS(view.detach_(), doctest::Contains("x = x.detach()"), AutogradError);
  CHECK(!x.detach_().requires_grad());
  CHECK(x.requires_grad_().requires_grad());
}

TEST_CASE("methods: equal elements share the gradient of a whole median, one along a dimension gets it") {
  const Variable x = leaf_of({2.0, 1.0, 2.0, 3.0}, {4});
  CHECK(same(grad(x.median(), {x})[0].value(), Tensor::from({0.5, 0.0, 0.5, 0.0})));
  CHECK(same(grad(x.max(0).values, {x})[0].value(), Tensor::from({0.0, 0.0, 0.0, 1.0})));
  const Variable nan = leaf_of({2.0, NAN, 1.0}, {3});
  CHECK(nan.median().isnan().item_i64() == 1);
  CHECK(nan.median(0).indices.item_i64() == 1);
  CHECK_THROWS_AS(zeros({0}).median(), ShapeError);
  CHECK(Tensor::scalar(3.0).median(0).values.item() == 3.0);
  CHECK(Tensor::scalar(3.0).max(0).values.item() == 3.0);
}

TEST_CASE("methods: allclose with infinities and NaN") {
  const double inf = INFINITY;
  CHECK(allclose(Tensor::from({inf, -inf, 1.0}), Tensor::from({inf, -inf, 1.0 + 1e-9})));
  CHECK(!allclose(Tensor::from({inf}), Tensor::from({-inf})));
  CHECK(!allclose(Tensor::from({1.0}), Tensor::from({inf})));
  CHECK(!allclose(Tensor::from({NAN}), Tensor::from({NAN})));
  CHECK(allclose(arange(3), arange(3)));
}

TEST_CASE("printing: a Variable is its value and what computed it") {
  const Variable x = Variable::leaf(tensor({1.0, 2.0}));
  CHECK(printed(x) == "[1. 2.]\n(2,) f32 on cpu, requires_grad");
  CHECK(printed(x * 2) == "[2. 4.]\n(2,) f32 on cpu, grad_fn=<mul>");
  CHECK(printed(x.detach()) == "[1. 2.]\n(2,) f32 on cpu");
  CHECK(printed(Variable()) == "an undefined Variable");
}
