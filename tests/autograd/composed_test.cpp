// The functions of autograd/functions/composed.h: derivatives, refusals, and values that
// tests/torch_functions lacks.
#include "autograd/functions/composed.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "autograd/debug/gradcheck.h"
#include "autograd/functions/composed/statistics.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/in_place.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/indexing/advanced_indexing.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/layers/loss.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/nondifferentiable.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "tensor/functions.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/creation/literal.h"

using namespace tessera;

namespace {

using Inputs = std::vector<Variable>;

Variable leaf_of(const Tensor& values) {
  return Variable::leaf(ops::cast(values, f64));
}
/// Different values without zeros, ties and whole quotients.
Variable values(const Shape& shape, double scale = 1) {
  Tensor x = Tensor::empty(shape, f64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] = scale * (0.3 + std::sin(2.3 * double(i + 1)));
  return Variable::leaf(x);
}

/// First and second derivatives.
void check(const char* name, const std::function<Variable(const Inputs&)>& function, const Inputs& inputs) {
  const CheckedFunction checked = [&](std::span<const Variable> in) {
    return std::vector<Variable>{function(Inputs(in.begin(), in.end()))};
  };
  INFO(std::string(name));
  const GradcheckResult first = gradcheck(checked, inputs);
  CHECK_MESSAGE(first.passed, first.message);
  const GradcheckResult second = gradgradcheck(checked, inputs, {.absolute = 1e-5, .relative = 1e-4});
  CHECK_MESSAGE(second.passed, second.message);
}

Tensor numbers(std::initializer_list<double> list) {
  return tensor(list, f64);
}
bool same(const Variable& a, const Tensor& b) {
  return a.shape() == b.shape() && allclose(a.value(), b, 1e-12, 1e-12);
}

}  // namespace

TEST_CASE("composed: derivatives element by element") {
  const Variable x = values({2, 3}), y = values({2, 3}, 1.7), row = values({3}, 0.8);
  check("remainder", [](const Inputs& in) { return in[0] % in[1]; }, {x, y});
  check("remainder of a number", [](const Inputs& in) { return exp(in[0] % 0.4); }, {x});
  check("fmod", [](const Inputs& in) { return fmod(in[0], in[1]); }, {x, row});
  check("fmod of a number", [](const Inputs& in) { return fmod(in[0], -0.4) * in[0]; }, {x});
  check("logaddexp", [](const Inputs& in) { return logaddexp(in[0], in[1]); }, {x, row});
  check("nan_to_num", [](const Inputs& in) { return nan_to_num(in[0]) * in[0]; }, {x});
  check("sinh", [](const Inputs& in) { return sinh(in[0]); }, {x});
  check("cosh", [](const Inputs& in) { return cosh(in[0]); }, {x});
  check("leaky_relu", [](const Inputs& in) { return leaky_relu(in[0], 0.2) * in[0]; }, {x});
  check("elu", [](const Inputs& in) { return elu(in[0], 0.7); }, {x});
  check("logsigmoid", [](const Inputs& in) { return logsigmoid(in[0]); }, {x});
  check("mish", [](const Inputs& in) { return mish(in[0]); }, {x});
}

TEST_CASE("composed: derivatives along a dimension") {
  const Variable x = values({3, 5});
  check("cumprod", [](const Inputs& in) { return cumprod(in[0], 1); }, {x});
  check("cumprod with a 0", [](const Inputs& in) { return cumprod(in[0], 0); },
        {leaf_of(tensor({1.5, 0.0, -2.0, 0.0, 3.0}))});
  check("logcumsumexp", [](const Inputs& in) { return logcumsumexp(in[0], -1); }, {x});
  check("diff", [](const Inputs& in) { return exp(diff(in[0], 1, 0)); }, {x});
  check("kthvalue", [](const Inputs& in) { return exp(kthvalue(in[0], 2, 1).values); }, {x});
}

TEST_CASE("composed: derivatives of products and distances") {
  const Variable a = values({2, 3}), b = values({3, 4}, 0.7), x = values({2, 4}, 1.3), v = values({3}, 0.9);
  check("addmm", [](const Inputs& in) { return addmm(in[0], in[1], in[2], 0.5, 2); }, {x, a, b});
  check("addmv", [](const Inputs& in) { return addmv(in[0], in[1], in[2]); }, {values({2}), a, v});
  check("baddbmm", [](const Inputs& in) { return baddbmm(in[0], in[1], in[2], 2, 0.5); },
        {values({4}), values({2, 2, 3}), values({2, 3, 4})});
  check("einsum",
        [](const Inputs& in) {
          return einsum("ij,jk,i->ki", {in[0], in[1], in[2]});
        },
        {a, b, values({2}, 0.4)});
  check("einsum of a diagonal", [](const Inputs& in) { return einsum("bii->b", {in[0]}) * 2; },
        {values({2, 3, 3})});
  check("cdist", [](const Inputs& in) { return cdist(in[0], in[1]); }, {a, values({4, 3}, 0.7)});
  check("cosine_similarity", [](const Inputs& in) { return cosine_similarity(in[0], in[1]); },
        {a, values({2, 3}, 2)});
  check("normalize", [](const Inputs& in) { return normalize(in[0]); }, {a});
  check("trace", [](const Inputs& in) { return trace(in[0]) * trace(in[0]); }, {values({3, 3})});
}

TEST_CASE("composed: derivatives of what moves elements") {
  const Variable x = values({2, 3}), m = values({3, 4});
  const Tensor index = tensor({2, 0});
  check("diagonal", [](const Inputs& in) { return exp(diagonal(in[0], 1)); }, {m});
  check("diag", [](const Inputs& in) { return exp(diag(in[0], -1)); }, {values({3})});
  check("movedim", [](const Inputs& in) { return exp(movedim(in[0], 0, 1)); }, {x});
  check("unflatten", [](const Inputs& in) { return exp(unflatten(in[0], 1, {2, -1})); }, {m});
  check("tile", [](const Inputs& in) { return exp(tile(in[0], {2, 1, 2})); }, {x});
  check("repeat_interleave", [](const Inputs& in) { return exp(repeat_interleave(in[0], 2, 1)); }, {x});
  check("repeat_interleave by counts",
        [](const Inputs& in) {
          return exp(repeat_interleave(in[0], tensor({2, 0, 1}), 1));
        },
        {x});
  check("meshgrid",
        [](const Inputs& in) {
          return meshgrid({in[0], in[1]}, "xy")[0] * meshgrid({in[0], in[1]}, "xy")[1];
        },
        {values({2}), values({3})});
  check("scatter of a number",
        [&](const Inputs& in) {
          return exp(scatter(in[0], 1, tensor({{2}, {0}}), 1.5));
        },
        {x});
  check("index_fill", [&](const Inputs& in) { return exp(index_fill(in[0], 1, index, 1.5)); }, {x});
}

TEST_CASE("composed: derivatives of losses") {
  const Variable x = values({3, 4}), target = values({3, 4}, 0.6);
  const Variable u = Variable::leaf(softmax(x.value(), 1)), t = Variable::leaf(softmax(target.value(), 1));
  check("l1_loss", [](const Inputs& in) { return l1_loss(in[0], in[1]) * l1_loss(in[0], in[1]); },
        {x, target});
  check("smooth_l1_loss",
        [](const Inputs& in) { return smooth_l1_loss(in[0], in[1], LossReduction::none, 0.3); }, {x, target});
  check("binary_cross_entropy", [](const Inputs& in) { return binary_cross_entropy(in[0], in[1]); }, {u, t});
  check("kl_div", [](const Inputs& in) { return kl_div(in[0], in[1], LossReduction::sum); }, {x, t});
  check("kl_div of logarithms",
        [](const Inputs& in) { return kl_div(in[0], in[1], LossReduction::sum, true); }, {x, target});
  check("nll_loss", [](const Inputs& in) { return exp(nll_loss(in[0], tensor({3, 0, 3}))); }, {x});
}

TEST_CASE("composed: changes in place have the derivatives of the functions") {
  const Variable x = values({2, 3}), y = values({2, 3}, 0.5), z = values({2, 3}, 2);
  const Tensor mask = tensor({{true, false, true}, {false, false, true}}), index = tensor({2, 0}),
               grid = tensor({{2, 0}, {1, 2}});
  const auto changed = [](const Inputs& in, auto change) {
    const Variable copy = in[0].clone();
    change(copy);
    return exp(copy);
  };
  const auto check_change = [&](const char* name, const Inputs& inputs, auto change) {
    check(
        name, [&](const Inputs& in) { return changed(in, [&](const Variable& copy) { change(copy, in); }); },
        inputs);
  };
  const Variable columns = values({2, 2}, 0.4);
  check_change("lerp_", {x, y}, [](const Variable& c, const Inputs& in) { c.lerp_(in[1], 0.3); });
  check_change("addcmul_", {x, y, z},
               [](const Variable& c, const Inputs& in) { c.addcmul_(in[1], in[2], 2); });
  check_change("addcdiv_", {x, y, z},
               [](const Variable& c, const Inputs& in) { c.addcdiv_(in[1], in[2], 2); });
  check_change("clamp_min_", {x}, [](const Variable& c, const Inputs&) { c.clamp_min_(0.1); });
  check_change("clamp_max_", {x}, [](const Variable& c, const Inputs&) { c.clamp_max_(0.1); });
  check_change("masked_fill_", {x}, [&](const Variable& c, const Inputs&) { c.masked_fill_(mask, 0.5); });
  check_change("scatter_", {x, columns},
               [&](const Variable& c, const Inputs& in) { c.scatter_(1, grid, in[1]); });
  check_change("scatter_ of a number", {x},
               [&](const Variable& c, const Inputs&) { c.scatter_(1, grid, 0.5); });
  check_change("scatter_add_", {x, columns},
               [&](const Variable& c, const Inputs& in) { c.scatter_add_(1, grid, in[1]); });
  check_change("index_add_", {x, columns},
               [&](const Variable& c, const Inputs& in) { c.index_add_(1, index, in[1]); });
  check_change("index_copy_", {x, columns},
               [&](const Variable& c, const Inputs& in) { c.index_copy_(1, index, in[1]); });
  check_change("index_fill_", {x}, [&](const Variable& c, const Inputs&) { c.index_fill_(1, index, 0.5); });
  CHECK_THROWS_AS(x.masked_fill_(mask, 0), AutogradError);  // a leaf that requires a gradient
  CHECK_THROWS_AS(x.scatter_add_(1, grid, columns), AutogradError);
  // Where nothing is recorded they write x itself.
  const Variable constant = x.value().clone();
  const void* memory = constant.value().raw_data();
  CHECK(same(constant.masked_fill_(mask, 9.0), masked_fill(x.value(), mask, 9.0)));
  CHECK(constant.value().raw_data() == memory);
}

TEST_CASE("composed: a Tensor's method takes a Variable") {
  const Tensor x = numbers({1, 2, 3});
  const Variable y = leaf_of(tensor({4.0, 5.0, 6.0}));
  static_assert(std::same_as<decltype(x.add(y)), Variable>);
  static_assert(std::same_as<decltype(x.eq(y)), Tensor>);
  CHECK(same(x.mul(y), x * y.value()));
  CHECK(same(grad(x.dot(y), {y})[0], x));
  CHECK(same(grad(x.maximum(y).sum(), {y})[0], ones({3}, f64)));
}

TEST_CASE("composed: values at the edges") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(same(logaddexp(numbers({-inf, inf, 1000, 0}), numbers({-inf, 0, 1000, -1000})),
             numbers({-inf, inf, 1000 + std::log(2.0), 0})));
  CHECK(same(logcumsumexp(numbers({-1000, -inf, 0}), 0), numbers({-1000, -1000, 0})));
  CHECK(same(fmod(numbers({-5.5, 5.5, 1e-20}), numbers({2, -2, -1})), numbers({-1.5, 1.5, 1e-20})));
  CHECK(array_equal(fmod(tensor({-7, 7}), 3), tensor({-1, 1})));
  CHECK(array_equal(cumprod(tensor({1, 2, 3, 4, 5}), 0), tensor({1, 2, 6, 24, 120})));
  CHECK(array_equal(cumprod(tensor(3.0), 0), tensor(3.0)));
  CHECK(cumprod(zeros({2, 0}), 1).shape() == Shape{2, 0});
  CHECK(same(sinh(numbers({1e-9, 800})), numbers({1e-9, inf})));
  CHECK(array_equal(nan_to_num(tensor({NAN, INFINITY, -INFINITY}), 1, 2, 3), tensor({1.0, 2.0, 3.0})));
  CHECK(kthvalue(tensor(2.0), 1).values.item() == 2.0);
  CHECK(diagonal(zeros({2, 3}), 5).shape() == Shape{0});
  CHECK(diag(zeros({0})).shape() == Shape{0, 0});
  CHECK(addmm(full({2, 2}, NAN), eye(2), eye(2), 0).isfinite().all().item() == 1);
  CHECK(repeat_interleave(tensor({{1, 2}, {3, 4}}), 2).shape() == Shape{8});
  CHECK(same(l1_loss(leaf_of(tensor({1.0, 2.0})), numbers({0, 0}), LossReduction::sum), tensor(3.0, f64)));
  CHECK(binary_cross_entropy(numbers({0, 1}), numbers({1, 1})).item() == 50);
}

TEST_CASE("composed: einsum") {
  const Tensor a = arange(6.0, f64).view({2, 3}), b = arange(12.0, f64).view({3, 4}),
               batch = randn({5, 2, 3}, f64);
  CHECK(same(einsum("ij,jk", {a, b}), mm(a, b)));
  CHECK(same(einsum("ij -> ji", {a}), a.t()));
  CHECK(same(einsum("ba", {a}), a.t()));
  CHECK(same(einsum("ij->", {a}), a.sum()));
  CHECK(same(einsum("...ij,jk->...ik", {batch, b}), matmul(batch, b)));
  CHECK(same(einsum("...,...->...", {batch, a}), batch * a));
  CHECK(same(einsum("i,j->ij", {a[0], b[0]}), outer(a[0], b[0])));
  CHECK(same(einsum("ii->i", {eye(3, f64)}), ones({3}, f64)));
  CHECK(same(einsum("bi,bi->b", {a, a}), (a * a).sum(1)));
  CHECK(same(einsum("ij,kj->ik", {a, ones({4, 1}, f64)}), a.sum(1, true).expand({2, 4})));
  CHECK_THROWS_AS(einsum("ij,jk->ik", {a}), ValueError);
  CHECK_THROWS_AS(einsum("ij,jk->ik", {a, a}), ShapeError);
  CHECK_THROWS_AS(einsum("ijk->i", {a}), ShapeError);
  CHECK_THROWS_AS(einsum("ij->iz", {a}), ValueError);
  CHECK_THROWS_AS(einsum("ij->ii", {a}), ValueError);
  CHECK_THROWS_AS(einsum("i?->i", {a}), ValueError);
  CHECK_THROWS_AS(einsum("", std::span<const Tensor>()), ValueError);
}

TEST_CASE("composed: refusals") {
  const Tensor x = zeros({2, 3}), i = zeros({2, 3}, i64), truth = zeros({2}, boolean);
  CHECK_THROWS_AS(fmod(i, 0), ValueError);
  CHECK_THROWS_AS(fmod(truth, truth), DTypeError);
  CHECK_THROWS_AS(logaddexp(i, i), DTypeError);
  CHECK_THROWS_AS(logcumsumexp(i, 0), DTypeError);
  CHECK_THROWS_AS(cumprod(x, 2), IndexError);
  CHECK_THROWS_AS(diff(Variable(tensor(1.0))), ShapeError);
  CHECK_THROWS_AS(kthvalue(x, 0), ValueError);
  CHECK_THROWS_AS(kthvalue(x, 4), ValueError);
  CHECK_THROWS_AS(addmm(zeros({3, 3}), x, x.t()), ShapeError);
  CHECK_THROWS_AS(cdist(x, zeros({2, 2})), ShapeError);
  CHECK_THROWS_AS(trace(zeros({2})), ShapeError);
  CHECK_THROWS_AS(diagonal(zeros({2})), ShapeError);
  CHECK_THROWS_AS(diagonal(x, 0, 1, -1), ValueError);
  CHECK_THROWS_AS(diag(zeros({1, 1, 1})), ShapeError);
  CHECK_THROWS_AS(movedim(x, {0, 1}, {1}), ShapeError);
  CHECK_THROWS_AS(movedim(x, {0, 1}, {1, 1}), ValueError);
  CHECK_THROWS_AS(unflatten(x, 1, {2, -1}), ShapeError);
  CHECK_THROWS_AS(repeat_interleave(x, -1), ValueError);
  CHECK_THROWS_AS(repeat_interleave(x, tensor({1, -1, 1}), 1), ValueError);
  CHECK_THROWS_AS(repeat_interleave(x, tensor({1, 1}), 1), ShapeError);
  CHECK_THROWS_AS(meshgrid({x}), ShapeError);
  CHECK_THROWS_AS(meshgrid({zeros({2})}, "yx"), ValueError);
  CHECK_THROWS_AS(x.masked_fill_(i, 0), DTypeError);
  CHECK_THROWS_AS(x.masked_fill_(zeros({5}, boolean), 0), ShapeError);
  CHECK_THROWS_AS(zeros({3}).expand({2, 3}).masked_fill_(x > 0, 0), ValueError);
  CHECK_THROWS_AS(x.index_fill_(1, tensor({3}), 0), IndexError);
  CHECK_THROWS_AS(index_fill(x, 1, tensor({{1}}), 0), ShapeError);
  CHECK_THROWS_AS(l1_loss(x, zeros({3})), ShapeError);
  CHECK_THROWS_AS(smooth_l1_loss(x, x, LossReduction::mean, 0), ValueError);
  CHECK_THROWS_AS(binary_cross_entropy(x + 2, x), ValueError);
  CHECK_THROWS_AS(nll_loss(x, tensor({0})), ShapeError);
}
