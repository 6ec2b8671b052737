#pragma once

#include <optional>

#include "tensor/tensor.h"

/// Bits, counts and sets: functions whose results have no gradient, made of other functions.
namespace tessera {

/// x 2^n, and x / 2^n rounded down, of integers. Bits shifted out are lost; an n outside [0, bits) shifts all
/// of them out. Throw DTypeError for floating values and bools.
/// @{
Tensor bitwise_left_shift(const Tensor& x, const Tensor& n);
Tensor bitwise_left_shift(const Tensor& x, const Scalar& n);
Tensor bitwise_right_shift(const Tensor& x, const Tensor& n);
Tensor bitwise_right_shift(const Tensor& x, const Scalar& n);
/// @}

/// bool: |a - b| at most atol + rtol |b|, or both the same infinity; with `equal_nan`, or both NaN.
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false);
/// Whether shapes and all elements are equal: torch.equal. (`equal` compares element by element.)
bool array_equal(const Tensor& a, const Tensor& b);
/// i64: the number of elements that are not 0.
Tensor count_nonzero(const Tensor& x, const Shape& dims = {});

/// The different values of x in rising order, (n,). Each NaN counts as different.
Tensor unique(const Tensor& x);
/// What `unique_all` gives.
struct UniqueValues {
  Tensor values;   ///< as `unique`
  Tensor inverse;  ///< i64, of x's shape: where in `values` each element is
  Tensor counts;   ///< i64, (n,): how often each value occurs
};
/// The different values with their places and counts.
UniqueValues unique_all(const Tensor& x);
/// How often each of the numbers 0, 1, ... occurs in x (n,), or the sums of their `weights` (n,): at least
/// `minlength` results. Throws DTypeError unless x is of integers, ShapeError unless it is a vector,
/// ValueError for a negative number.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t minlength = 0);
/// i64: where in the last dimension of `sorted`, which rises, each value would be inserted so that it keeps
/// rising: in front of equal elements, with `right` behind them; NaN behind all. `sorted` is a vector, or has
/// the extents of `values` except for the last. Throws ShapeError, DTypeError.
/// @{
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);
Tensor searchsorted(const Tensor& sorted, const Scalar& value, bool right = false);
/// @}
/// `searchsorted` with the arguments exchanged: the bucket of each value between the `boundaries` (n,).
Tensor bucketize(const Tensor& values, const Tensor& boundaries, bool right = false);

/// base^e for `count` evenly spaced exponents e from `start` to `end`, both included, of a floating dtype.
Tensor logspace(double start, double end, int64_t count, double base = 10, DType dtype = f32,
                Device device = cpu());

namespace detail {
/// i64: position i of `counts` (n,) counts[i] times in a row. Throws as `repeat_interleave`.
Tensor repeated_positions(const Tensor& counts);
}  // namespace detail

}  // namespace tessera
