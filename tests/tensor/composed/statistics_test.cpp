// Statistics: what the op table's goldens lack, and refusals.
#include "tensor/composed/statistics/statistics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tensor/functions.h"
#include "tensor/ops/creation/literal.h"
#include "tensor/ops/indexing/running_extreme.h"

using namespace tessera;

TEST_CASE("statistics: places of running extremes are the last of equals, and of NaNs") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(array_equal(ops::running_extreme(tensor({2, 1, 2, 3, 3, 0}), 0, true), tensor({0, 0, 2, 3, 4, 4})));
  CHECK(array_equal(ops::running_extreme(tensor({2, 1, 2, 1, 0, 3}), 0, false), tensor({0, 1, 1, 3, 4, 4})));
  CHECK(
      array_equal(ops::running_extreme(tensor({1.0, nan, 5.0, nan, 0.0}), 0, true), tensor({0, 1, 1, 3, 3})));
  // Columns of a transposed matrix.
  const Tensor x = tensor({{1, 4}, {3, 2}}).t();
  CHECK(array_equal(ops::running_extreme(x, 0, true), tensor({{0, 0}, {1, 0}})));
}

TEST_CASE("statistics: the most frequent value, its last place, of several the smallest") {
  const auto [values, indices] = mode(tensor({{3, 1, 3, 1, 2}, {5, 4, 2, 2, 9}}), 1, true);
  CHECK(array_equal(values, tensor({{1}, {2}})));
  CHECK(array_equal(indices, tensor({{3}, {3}})));
  CHECK(mode(tensor({7.0}), 0).values.item() == 7);
}

TEST_CASE("statistics: the range of the values as the bounds of a histogram") {
  CHECK(array_equal(histc(tensor({1.0, 2.0, 3.0, 5.0}), 4), tensor({1.0, 1.0, 1.0, 1.0})));
  CHECK(array_equal(histc(tensor({2.0, 2.0}), 2), tensor({0.0, 2.0})));
  CHECK(histc(zeros({0}), 3).sum().item() == 0);
}

TEST_CASE("statistics: bad input") {
  const Tensor x = ones({2, 3}), whole = ones({2, 3}, i64), nothing = zeros({0, 3});
  CHECK_THROWS_WITH_AS(quantile(x, 1.5), "quantile: expected q within [0, 1]", ValueError);
  CHECK_THROWS_AS(quantile(x, std::nan("")), ValueError);
  CHECK_THROWS_AS(quantile(x, 0.5, 0, false, "cubic"), ValueError);
  CHECK_THROWS_AS(quantile(whole, 0.5), DTypeError);
  CHECK_THROWS_AS(quantile(x, zeros({2, 2})), ShapeError);
  CHECK_THROWS_AS(quantile(nothing, 0.5, 0), ShapeError);
  CHECK_THROWS_AS(quantile(x, 0.5, 2), IndexError);
  CHECK_THROWS_AS(nanmedian(nothing, 0), ShapeError);
  CHECK_THROWS_AS(mode(nothing, 0), ShapeError);
  CHECK_THROWS_AS(cummax(x, 2), IndexError);
  CHECK_THROWS_AS(renorm(x, 0, 0, 1), ValueError);
  CHECK_THROWS_AS(renorm(x, 2, 0, -1), ValueError);
  CHECK_THROWS_AS(renorm(ones({3}), 2, 0, 1), ShapeError);
  CHECK_THROWS_AS(diff(x, -1, 0), ValueError);
  CHECK_THROWS_AS(trapezoid(x, ones({4}), 1), ShapeError);
  CHECK_THROWS_AS(trapezoid(whole, 1.0), DTypeError);
  CHECK_THROWS_AS(cov(ones({2, 2, 2})), ShapeError);
  CHECK_THROWS_AS(histc(x, 0), ValueError);
  CHECK_THROWS_AS(histc(x, 2, 1, 0), ValueError);
  CHECK_THROWS_AS(histc(tensor({1.0, double(INFINITY)})), ValueError);
}
