// Distances: close rows in the form by products, NaN, and refusals.
#include "tensor/composed/distances.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tensor/composed/functions.h"
#include "tensor/functions.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/creation/literal.h"

using namespace tessera;

TEST_CASE("distances: rows that are close to each other lose no digits in products") {
  // Rows of length 1000, at distances of 1e-2 and less: their squares differ in the last bits of f32.
  const Tensor a = randn({40, 8}) * 1e-3 + 350.0;
  const Tensor y = cdist(a, a), exact = cdist(a.to(f64), a.to(f64), 2.0 + 1e-13);
  for (int64_t i = 0; i < y.numel(); ++i)
    CHECK(y.contiguous().data<float>()[i] ==
          doctest::Approx(exact.contiguous().data<double>()[i]).epsilon(1e-5));
}

TEST_CASE("distances: NaN stays NaN, for every norm") {
  const Tensor a = tensor({{1.0, double(NAN), 2.0}}), b = tensor({{0.0, 5.0, 7.0}});
  for (const double p : {1.0, 1.5, 2.0, double(INFINITY)}) CHECK(std::isnan(cdist(a, b, p).item()));
}

TEST_CASE("distances: bad input") {
  const Tensor x = ones({2, 3});
  CHECK_THROWS_WITH_AS(cdist(x, x, -1), "cdist: expected p of at least 0, got -1", ValueError);
  CHECK_THROWS_AS(cdist(x, x, std::nan("")), ValueError);
  CHECK_THROWS_AS(cdist(x, ones({2, 4})), ShapeError);
  CHECK_THROWS_AS(cdist(ones({3}), x), ShapeError);
  CHECK_THROWS_AS(cdist(ones({2, 2, 3}), ones({3, 2, 3})), ShapeError);
  CHECK_THROWS_AS(cdist(x, x.to(f64)), DTypeError);
  CHECK_THROWS_AS(pdist(ones({3})), ShapeError);
}
