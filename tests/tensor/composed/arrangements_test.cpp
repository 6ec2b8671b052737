// Arrangements: indices of triangles, and refusals.
#include "tensor/composed/shaping/arrangements.h"

#include <doctest/doctest.h>

#include "tensor/functions.h"
#include "tensor/ops/creation/literal.h"

using namespace tessera;

TEST_CASE("arrangements: the indices of triangles") {
  CHECK(array_equal(tril_indices(2, 3), tensor({{0, 1, 1}, {0, 0, 1}})));
  CHECK(array_equal(triu_indices(3, 2, 1), tensor({{0}, {1}})));
  CHECK(tril_indices(0, 3).shape() == Shape{2, 0});
  CHECK_THROWS_AS(tril_indices(-1, 3), ValueError);
}

TEST_CASE("arrangements: bad input") {
  const Tensor x = ones({2, 3});
  CHECK_THROWS_AS(tensor_split(x, 0), ValueError);
  CHECK_THROWS_AS(tensor_split(x, 2, 2), IndexError);
  CHECK_THROWS_AS(unfold_along(x, 1, 4, 1), ShapeError);
  CHECK_THROWS_AS(unfold_along(x, 1, 2, 0), ValueError);
  CHECK_THROWS_AS(block_diag({ones({2, 2, 2})}), ShapeError);
  CHECK_THROWS_AS(block_diag(std::span<const Tensor>()), ValueError);
  CHECK_THROWS_AS(cartesian_prod({x}), ShapeError);
  CHECK_THROWS_AS(combinations(x), ShapeError);
  CHECK_THROWS_AS(combinations(ones({3}), -1), ValueError);
  CHECK_THROWS_AS(diag_embed(x, 0, 1, 1), ValueError);
  CHECK_THROWS_AS(diag_embed(x, 0, 0, 3), IndexError);
  CHECK_THROWS_WITH_AS(diagonal_scatter(x, ones({3})),
                       "diagonal_scatter: expected a source of shape (2,), got (3,)", ShapeError);
  CHECK_THROWS_AS(select_scatter(x, ones({2}), 0, 0), ShapeError);
  CHECK_THROWS_AS(select_scatter(x, ones({3}), 0, 2), IndexError);
  CHECK_THROWS_AS(slice_scatter(x, ones({2, 3}), 1, 0, 2), ShapeError);
  CHECK_THROWS_AS(rot90(x, 1, {0, 0}), ValueError);
  CHECK_THROWS_AS(rot90(x, 1, {0}), ValueError);
  CHECK_THROWS_AS(vander(x), ShapeError);
  CHECK_THROWS_AS(vander(ones({3}), -1), ValueError);
}
