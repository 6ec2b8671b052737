// Writing by index and sets: what the op table's goldens lack, and refusals.
#include "tensor/composed/indexing/places.h"

#include <doctest/doctest.h>

#include "tensor/functions.h"
#include "tensor/ops/creation/literal.h"
#include "tensor/ops/indexing/scatter_multiply.h"

using namespace tessera;

TEST_CASE("places: products by index, of integers too") {
  const Tensor x = tensor({2, 3, 5}), index = tensor({0, 2, 0, 0});
  CHECK(array_equal(ops::scatter_multiply(x, 0, index, tensor({2, 3, -1, 4})), tensor({-16, 3, 15})));
  CHECK(array_equal(scatter_reduce(x, 0, index, tensor({2, 3, -1, 4}), "prod", false), tensor({-8, 3, 3})));
  CHECK(array_equal(scatter_reduce(x, 0, index, tensor({2, 3, -1, 4}), "amax"), tensor({4, 3, 5})));
  CHECK(array_equal(scatter_reduce(x, 0, index, tensor({2, 3, -1, 4}), "amin", false), tensor({-1, 3, 3})));
  CHECK(array_equal(scatter_reduce(x, 0, index, tensor({2, 3, -1, 4}), "mean"), tensor({1, 3, 4})));
}

TEST_CASE("places: groups of equal neighbours with places and counts") {
  const UniqueValues groups = unique_consecutive_all(tensor({{1, 1, 2}, {2, 1, 1}}));
  CHECK(array_equal(groups.values, tensor({1, 2, 1})));
  CHECK(array_equal(groups.inverse, tensor({{0, 0, 1}, {1, 2, 2}})));
  CHECK(array_equal(groups.counts, tensor({2, 2, 2})));
  CHECK(unique_consecutive_all(zeros({0})).values.numel() == 0);
}

TEST_CASE("places: bad input") {
  const Tensor x = ones({2, 3}), index = zeros({2, 3}, i64);
  CHECK_THROWS_WITH_AS(scatter_reduce(x, 1, index, x, "max"),
                       "scatter_reduce: expected the reduction \"sum\", \"prod\", \"mean\", \"amax\" or "
                       "\"amin\", got \"max\"",
                       ValueError);
  CHECK_THROWS_AS(scatter_reduce(x, 1, full({2, 3}, 3, i64), x, "amax"), IndexError);
  CHECK_THROWS_AS(scatter_reduce(x, 1, zeros({2, 4}, i64), x, "prod"), ShapeError);
  CHECK_THROWS_AS(scatter_reduce(x, 2, index, x, "sum"), IndexError);
  CHECK_THROWS_AS(scatter_reduce(x, 1, index, x.to(f64), "prod"), DTypeError);
  CHECK_THROWS_AS(index_reduce(x, 1, tensor({0, 1}), x, "prod"), ShapeError);
  CHECK_THROWS_AS(index_reduce(x, 1, index, x, "prod"), ShapeError);
  CHECK_THROWS_AS(index_put(x, {tensor({2})}, ones({3})), IndexError);
  CHECK_THROWS_AS(index_put(x, {tensor({0})}, ones({4})), ShapeError);
  CHECK_THROWS_AS(searchsorted(x, x, false, zeros({3}, i64)), ShapeError);
  CHECK_THROWS_AS(take_along_dim(x, full({2, 1}, 7, i64), 1), IndexError);
}
