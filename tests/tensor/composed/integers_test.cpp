// The functions of tensor/composed/integers.h, against values that were counted by hand or by loops.
#include "tensor/composed/integers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tensor/functions.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/creation/literal.h"

using namespace tessera;

TEST_CASE("integers: shifts of every width, and outside it") {
  const int64_t least = std::numeric_limits<int64_t>::min();
  const Tensor x = tensor({int64_t{5}, int64_t{-5}, least, int64_t{1} << 62});
  CHECK(array_equal(bitwise_left_shift(x, 1), tensor({int64_t{10}, int64_t{-10}, int64_t{0}, least})));
  CHECK(array_equal(bitwise_left_shift(x, 63), tensor({least, least, int64_t{0}, int64_t{0}})));
  for (const int64_t out : {64, 65, -1}) {
    CHECK(array_equal(bitwise_left_shift(x, out), zeros({4}, i64)));
    CHECK(array_equal(bitwise_right_shift(x, out), tensor({0, -1, -1, 0})));
  }
  for (const int64_t n : {0, 1, 31, 32, 62, 63})
    for (int64_t i = 0; i < 4; ++i)
      CHECK(bitwise_right_shift(x, n).data<int64_t>()[i] == x.data<int64_t>()[i] >> n);
  const Tensor small = tensor({200, 1}, u8);
  CHECK(array_equal(bitwise_left_shift(small, 1), tensor({144, 2}, u8)));
  CHECK(array_equal(bitwise_right_shift(small, 7), tensor({1, 0}, u8)));
  CHECK(array_equal(bitwise_right_shift(small, 9), tensor({0, 0}, u8)));
  CHECK(array_equal(bitwise_left_shift(tensor({1, 1}, i32), tensor({31, 3}, i32)),
                    tensor({std::numeric_limits<int32_t>::min(), 8}, i32)));
  CHECK_THROWS_AS(bitwise_left_shift(zeros({2}), 1), DTypeError);
  CHECK_THROWS_AS(bitwise_left_shift(zeros({2}, boolean), 1), DTypeError);
  CHECK_THROWS_AS(bitwise_right_shift(x, 1.0), DTypeError);
}

TEST_CASE("integers: operators of bits, also in place") {
  const Tensor x = tensor({12, 10}), y = tensor({10, 3});
  CHECK(array_equal(x & 8, tensor({8, 8})));
  CHECK(array_equal(x | 1, tensor({13, 11})));
  CHECK(array_equal(x ^ 2, tensor({14, 8})));
  CHECK(array_equal(x << tensor({1, 2}), tensor({24, 40})));
  CHECK(array_equal((x >> 1) << 1, x));
  Tensor z = x.clone();
  z &= y;
  CHECK(array_equal(z, tensor({8, 2})));
  z |= tensor({1, 1});
  z ^= tensor({9, 0});
  CHECK(array_equal(z, tensor({0, 3})));
  Tensor mask = tensor({true, false});
  mask |= tensor({false, true});
  CHECK(mask.all().item() == 1);
  CHECK_THROWS_AS(x & 0.5, DTypeError);
  CHECK_THROWS_AS(zeros({2}) & 1, DTypeError);
  CHECK_THROWS_AS(x & mask, DTypeError);
}

TEST_CASE("integers: unique values, their places and counts") {
  const Tensor x = tensor({{3, 1, 3}, {-2, 1, 3}});
  const UniqueValues all = unique_all(x);
  CHECK(array_equal(all.values, tensor({-2, 1, 3})));
  CHECK(array_equal(all.inverse, tensor({{2, 1, 2}, {0, 1, 2}})));
  CHECK(array_equal(all.counts, tensor({1, 2, 3})));
  CHECK(array_equal(all.values.index_select(0, all.inverse.flatten()), x.flatten()));
  CHECK(unique(zeros({0})).numel() == 0);
  CHECK(unique(tensor({NAN, NAN})).numel() == 2);
  CHECK(array_equal(unique(tensor({true, false, true})), tensor({false, true})));
}

TEST_CASE("integers: bincount") {
  CHECK(array_equal(bincount(tensor({1, 3, 1})), tensor({0, 2, 0, 1})));
  CHECK(array_equal(bincount(tensor({1, 3, 1}), {}, 6), tensor({0, 2, 0, 1, 0, 0})));
  CHECK(array_equal(bincount(tensor({1, 0, 1}), tensor({0.5, 2.0, 1.5})), tensor({2.0, 2.0})));
  CHECK(bincount(zeros({0}, i64)).shape() == Shape{0});
  CHECK(bincount(tensor({1}), tensor({2})).dtype() == f64);
  CHECK_THROWS_AS(bincount(tensor({1.0})), DTypeError);
  CHECK_THROWS_AS(bincount(tensor({{1}})), ShapeError);
  CHECK_THROWS_AS(bincount(tensor({1, 2}), tensor({1.0})), ShapeError);
  CHECK_THROWS_AS(bincount(tensor({1, -1})), ValueError);
  CHECK_THROWS_AS(bincount(tensor({1}), {}, -1), ValueError);
}

TEST_CASE("integers: searchsorted is std::lower_bound and std::upper_bound") {
  for (const int64_t n : {0, 1, 2, 7, 8, 100}) {
    const Tensor sorted = ops::sort(randint(0, 20, {n})).values, values = randint(-2, 23, {4, 9});
    const int64_t* first = sorted.data<int64_t>();
    const Tensor low = searchsorted(sorted, values), high = searchsorted(sorted, values, true);
    for (int64_t i = 0; i < values.numel(); ++i) {
      const int64_t value = values.data<int64_t>()[i];
      CHECK(low.data<int64_t>()[i] == std::lower_bound(first, first + n, value) - first);
      CHECK(high.data<int64_t>()[i] == std::upper_bound(first, first + n, value) - first);
    }
  }
  const Tensor rows = tensor({{1, 3, 5}, {2, 4, 6}});
  CHECK(array_equal(searchsorted(rows, tensor({{3}, {3}})), tensor({{1}, {1}})));
  CHECK(searchsorted(tensor({1, 3}), 2).item_i64() == 1);
  const Tensor places = tensor({std::nan(""), 1.0});  // NaN counts as the largest, as in sort
  for (const bool right : {false, true})
    CHECK(array_equal(searchsorted(tensor({0.0, 1.0, 2.0}), places, right), tensor({3, right ? 2 : 1})));
  CHECK(array_equal(bucketize(tensor({0.0, 2.0}), tensor({1.0, 2.0})), tensor({0, 1})));
  CHECK_THROWS_AS(searchsorted(rows, zeros({3, 1}, i64)), ShapeError);
  CHECK_THROWS_AS(searchsorted(tensor({1.0}), tensor({1})), DTypeError);
  CHECK_THROWS_AS(bucketize(tensor({1}), rows), ShapeError);
}

TEST_CASE("integers: comparisons of all elements, counts, logspace") {
  CHECK(array_equal(tensor({1, 2}), tensor({1, 2})));
  CHECK_FALSE(array_equal(tensor({1, 2}), tensor({{1, 2}})));
  CHECK_FALSE(array_equal(tensor({NAN}), tensor({NAN})));
  CHECK(array_equal(isclose(tensor({NAN, 1.0f}), tensor({NAN, 2.0f})), tensor({false, false})));
  CHECK(array_equal(isclose(tensor({NAN, 1.0f}), tensor({NAN, 1.0f}), 0, 0, true), tensor({true, true})));
  CHECK(array_equal(count_nonzero(tensor({{0.0f, NAN}, {2.0f, 0.0f}}), {1}), tensor({1, 1})));
  CHECK(allclose(logspace(0, 3, 4, 2, f64), tensor({1.0, 2.0, 4.0, 8.0}, f64)));
}
