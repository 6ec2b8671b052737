// Methods for special functions, statistics and arrangements are the functions, with their arguments in
// order.

#include <doctest/doctest.h>

#include "autograd/functions/composed/arrangements.h"
#include "autograd/functions/composed/places.h"
#include "autograd/functions/composed/statistics.h"
#include "autograd/functions/elementwise/special_function.h"
#include "autograd/functions/reduction.h"
#include "tensor/composed/elementwise/special.h"
#include "tensor/composed/indexing/places.h"
#include "tensor/composed/shaping/arrangements.h"
#include "tensor/composed/statistics/statistics.h"
#include "tensor/functions.h"
#include "tensor/ops/creation/literal.h"

using namespace tessera;

namespace {

const Tensor& values(const Tensor& x) {
  return x;
}
const Tensor& values(const Variable& x) {
  return x.value();
}

template <class A, class B>
bool same(const A& a, const B& b) {
  return values(a).dtype() == values(b).dtype() && array_equal(values(a), values(b));
}
template <class X>
bool same(const ValuesAndIndices<X>& a, const ValuesAndIndices<X>& b) {
  return same(a.values, b.values) && same(a.indices, b.indices);
}

/// x and y: (2, 3), within (0, 1).
template <class X>
void check_methods(const X& x, const X& y) {
  CHECK(same(x.asin().sin(), asin(x).sin()));
  CHECK(same(x.acos(), acos(x)));
  CHECK(same(x.atan(), atan(x)));
  CHECK(same(x.asinh(), asinh(x)));
  CHECK(same(x.add(1).acosh(), acosh(x + 1)));
  CHECK(same(x.atanh(), atanh(x)));
  CHECK(same(x.erfinv(), erfinv(x)));
  CHECK(same(x.lgamma(), lgamma(x)));
  CHECK(same(x.digamma(), digamma(x)));
  CHECK(same(x.polygamma(1), polygamma(1, x)));
  CHECK(same(x.sinc(), sinc(x)));
  CHECK(same(x.logit(), logit(x)));
  CHECK(same(x.logit(0.3), logit(x, 0.3)));
  CHECK(same(x.atan2(y), atan2(x, y)));
  CHECK(!same(x.atan2(y), atan2(y, x)));
  CHECK(same(x.hypot(y), hypot(x, y)));
  CHECK(same(x.copysign(y.neg()), x.neg()));
  CHECK(same(x.xlogy(y), xlogy(x, y)));
  CHECK(same(x.float_power(y), float_power(x, y)));
  CHECK(same(x.float_power(2), float_power(x, 2)));
  CHECK(same(x.sub(0.5).heaviside(y), heaviside(x - 0.5, y)));
  CHECK(same(x.nextafter(y), nextafter(x, y)));
  CHECK(same(x.clamp_min(y), x.maximum(y)));
  CHECK(same(x.clamp_max(y), x.minimum(y)));

  CHECK(same(x.diff(), x.narrow(1, 1, 2) - x.narrow(1, 0, 2)));
  CHECK(same(x.diff(1, 0), x.narrow(0, 1, 1) - x.narrow(0, 0, 1)));
  CHECK(same(x.diff(2), x.diff().diff()));
  CHECK(same(diff(x, 2), x.diff().diff()));
  CHECK(same(x.diff(0), x));
  CHECK(same(x.diff(1, 1, y), diff(x, 1, 1, y)));
  CHECK_THROWS_AS(x.diff(1, 2), IndexError);
  CHECK_THROWS_AS(diff(x, 0, 2), IndexError);
  CHECK(same(x.cummax(1), cummax(x, 1)));
  CHECK(same(x.cummin(0), cummin(x, 0)));
  CHECK(same(x.aminmax({1}).min, x.amin(1)));
  CHECK(same(x.aminmax().max, x.amax()));
  CHECK(same(x.nansum(1, true), x.sum(1, true)));
  CHECK(same(x.nanmean(0), nanmean(x, 0)));
  CHECK(same(x.nanmedian(), x.median()));
  CHECK(same(x.nanmedian(1), x.median(1)));
  CHECK(same(x.mode(1), mode(x, 1)));
  CHECK(same(x.quantile(0.3), quantile(x, 0.3)));
  CHECK(same(x.quantile(0.3, 1, true, "lower"), quantile(x, 0.3, 1, true, "lower")));
  CHECK(same(x.quantile(tensor({0.25, 0.5}, f64), 1), quantile(x, tensor({0.25, 0.5}, f64), 1)));
  CHECK(same(x.nanquantile(0.5), nanquantile(x, 0.5)));
  CHECK(same(x.nanquantile(tensor({0.25, 0.5}, f64)), nanquantile(x, tensor({0.25, 0.5}, f64))));
  CHECK(same(x.renorm(2, 0, 0.5), renorm(x, 2, 0, 0.5)));
  CHECK(same(x.cov(0), cov(x, 0)));
  CHECK(same(x.corrcoef(), corrcoef(x)));
  CHECK(same(x.histc(4, 0, 1), histc(x, 4, 0, 1)));

  const Tensor index = tensor({{0, 2}, {1, 1}}), slices = tensor({1, 0});
  CHECK(same(x.index_put({1}, y.select(0, 0)), index_put(x, {1}, y.select(0, 0))));
  CHECK(same(x.index_put({0, 1}, y.sum(), true), index_put(x, {0, 1}, y.sum(), true)));
  CHECK(same(x.scatter_reduce(1, index, y, "amax"), scatter_reduce(x, 1, index, y, "amax")));
  CHECK(same(x.scatter_reduce(1, index, y, "sum", false), scatter_reduce(x, 1, index, y, "sum", false)));
  CHECK(same(x.index_reduce(0, slices, y, "prod"), index_reduce(x, 0, slices, y, "prod")));
  CHECK(same(x.gt(0.5).unique_consecutive(), unique_consecutive(x.gt(0.5))));

  CHECK(same(x.diag_embed(1), diag_embed(x, 1)));
  CHECK(same(x.diagonal_scatter(y.select(1, 0), 1), diagonal_scatter(x, y.select(1, 0), 1)));
  CHECK(same(x.select_scatter(y.select(1, 0), 1, 2), select_scatter(x, y.select(1, 0), 1, 2)));
  CHECK(
      same(x.slice_scatter(y.narrow(1, 0, 2), 1, 0, 3, 2), slice_scatter(x, y.narrow(1, 0, 2), 1, 0, 3, 2)));
  CHECK(same(x.rot90(), rot90(x, 1, {0, 1})));
  CHECK(same(x.rot90(3, {1, 0}), x.rot90(1, {0, 1})));
  CHECK(same(x.swapaxes(0, 1), x.t()));
  CHECK(same(x.unfold(1, 2, 1), unfold_along(x, 1, 2, 1)));
  CHECK(same(x.tensor_split(2, 1)[0], x.narrow(1, 0, 2)));
  CHECK(same(x.tensor_split({1}, 1)[1], x.narrow(1, 1, 2)));
}

const Tensor& first() {
  static const Tensor x = Tensor::from({0.1, 0.75, 0.5, 0.9, 0.3, 0.25}, {2, 3});
  return x;
}
const Tensor& second() {
  static const Tensor y = Tensor::from({0.4, 0.2, 0.6, 0.35, 0.8, 0.15}, {2, 3});
  return y;
}

}  // namespace

TEST_CASE("composed methods: those of a Tensor are the functions") {
  check_methods<Tensor>(first(), second());
}

TEST_CASE("composed methods: those of a Variable are the functions, recorded") {
  const Variable x = Variable::leaf(first()), y = Variable::leaf(second());
  check_methods<Variable>(x, y);
  CHECK(same(grad(x.diff().sum(), {x})[0], tensor({{-1.0, 0.0, 1.0}, {-1.0, 0.0, 1.0}}, f64)));
  CHECK(x.cummax(1).values.requires_grad());
  CHECK(x.tensor_split(3, 1)[0].requires_grad());
}
