#include "tensor/composed/integers.h"

#include <cmath>
#include <vector>

#include "tensor/functions.h"

namespace tessera {
namespace {

void require_shiftable(const char* where, DType dtype) {
  require<DTypeError>(is_integer(dtype), where, ": expected integers, got ", dtype);
}

/// x / 2^n rounded down, in two steps: 2^n itself may not be a number of the dtype.
Tensor shift_right(const Tensor& x, const Tensor& n) {
  const int64_t last = n.dtype() == u8 ? 8 : size_of(n.dtype()) * 8 - 1;
  const Tensor inside = ops::logical_and(ops::greater_equal(n, 0), ops::less_equal(n, last));
  const Tensor all = ops::where(inside, n, last);
  const Tensor half = ops::floor_divide(all, 2);
  const Tensor part = ops::floor_divide(x, ops::pow(2, half));
  return ops::floor_divide(part, ops::pow(2, ops::sub(all, half)));
}

Tensor number_like(const char* where, const Tensor& x, const Scalar& n) {
  require<DTypeError>(n.is_integer(), where, ": expected an integer, got ", n);
  require_shiftable(where, x.dtype());
  return ops::full({}, n, x.dtype(), x.device());
}

}  // namespace

Tensor bitwise_left_shift(const Tensor& x, const Tensor& n) {
  require_shiftable("bitwise_left_shift", x.dtype());
  require_shiftable("bitwise_left_shift", n.dtype());
  return ops::mul(x, ops::pow(2, ops::cast(n, x.dtype())));  // a power modulo 2^bits, 0 where n is outside
}

Tensor bitwise_left_shift(const Tensor& x, const Scalar& n) {
  return bitwise_left_shift(x, number_like("bitwise_left_shift", x, n));
}

Tensor bitwise_right_shift(const Tensor& x, const Tensor& n) {
  require_shiftable("bitwise_right_shift", x.dtype());
  require_shiftable("bitwise_right_shift", n.dtype());
  return shift_right(x, ops::cast(n, x.dtype()));
}

Tensor bitwise_right_shift(const Tensor& x, const Scalar& n) {
  return bitwise_right_shift(x, number_like("bitwise_right_shift", x, n));
}

Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  if (!is_floating(a.dtype()) && !is_floating(b.dtype()))
    return isclose(ops::cast(a, f64), ops::cast(b, f64), rtol, atol);
  // Infinities have no distance, or an infinite one: only equal ones are close.
  const Tensor bound = ops::add(ops::mul(ops::abs(b), rtol), atol);
  const Tensor near = ops::logical_and(ops::less_equal(ops::abs(ops::sub(a, b)), bound), ops::isfinite(b));
  const Tensor close = ops::logical_or(near, ops::equal(a, b));
  return equal_nan ? ops::logical_or(close, ops::logical_and(ops::isnan(a), ops::isnan(b))) : close;
}

bool array_equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && ops::all(ops::equal(a, b)).item_i64() != 0;
}

Tensor count_nonzero(const Tensor& x, const Shape& dims) {
  return ops::sum(ops::cast(x, boolean), dims);
}

Tensor unique(const Tensor& x) {
  return unique_all(x).values;
}

UniqueValues unique_all(const Tensor& x) {
  const Tensor flat = x.reshape({x.numel()});
  if (x.numel() == 0) return {flat, zeros(x.shape(), i64, x.device()), zeros({0}, i64, x.device())};
  const auto [sorted, order] = ops::sort(flat);
  const int64_t n = x.numel();
  const Tensor first = ones({1}, boolean, x.device());
  const Tensor starts = cat({first, ops::not_equal(sorted.narrow(0, 1, n - 1), sorted.narrow(0, 0, n - 1))});
  const Tensor numbers = ops::sub(ops::cumsum(starts, 0), 1);
  const Tensor inverse = ops::index_copy(Tensor::empty({n}, i64, x.device()), 0, order, numbers);
  return {ops::masked_select(sorted, starts), inverse.view(x.shape()), bincount(numbers)};
}

Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minlength) {
  require<DTypeError>(is_integer(x.dtype()), "bincount: expected integers, got ", describe(x));
  require<ShapeError>(x.ndim() == 1 && (!weights.defined() || weights.shape() == x.shape()),
                      "bincount: expected a vector and weights of its shape, got ", describe(x), " and ",
                      describe(weights));
  require<ValueError>(minlength >= 0, "bincount: expected a minlength of at least 0, got ", minlength);
  int64_t length = minlength;
  const Tensor numbers = ops::cast(x, i64);
  if (x.numel() > 0) {
    const int64_t smallest = amin(numbers).item_i64();
    require<ValueError>(smallest >= 0, "bincount: expected numbers of at least 0, got ", smallest);
    length = std::max(length, amax(numbers).item_i64() + 1);
  }
  if (!weights.defined())
    return ops::index_add(zeros({length}, i64, x.device()), 0, numbers, ones(x.shape(), i64, x.device()));
  const Tensor values = is_floating(weights.dtype()) ? weights : ops::cast(weights, f64);
  return ops::index_add(zeros({length}, values.dtype(), x.device()), 0, numbers, values);
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  require<ShapeError>(sorted.ndim() >= 1, "searchsorted: expected at least one dimension, got ",
                      sorted.shape());
  const Tensor flat = sorted.ndim() == 1 ? values.reshape({values.numel()}) : values;
  bool fits = flat.ndim() == sorted.ndim();
  for (int d = 0; fits && d + 1 < sorted.ndim(); ++d) fits = flat.size(d) == sorted.size(d);
  require<ShapeError>(fits, "searchsorted: expected values with the extents of ", sorted.shape(),
                      " but for the last, got ", values.shape());
  const int64_t n = sorted.shape().back();
  Tensor low = zeros(flat.shape(), i64, flat.device()), high = full_like(low, n);
  if (n == 0) return low.view(values.shape());
  const Tensor last = ops::not_equal(flat, flat);  // NaN counts as the largest, as in `sort`
  // Each pass halves what is between `low` and `high`.
  for (int64_t width = n; width > 0; width /= 2) {
    const Tensor open = ops::less(low, high);
    const Tensor middle = ops::floor_divide(ops::add(low, high), 2);
    const Tensor at = ops::gather(sorted, -1, ops::minimum(middle, n - 1));
    const Tensor before = ops::logical_or(last, right ? ops::less_equal(at, flat) : ops::less(at, flat));
    low = ops::where(ops::logical_and(open, before), ops::add(middle, 1), low);
    high = ops::where(ops::logical_and(open, ops::logical_not(before)), middle, high);
  }
  return low.view(values.shape());
}

Tensor searchsorted(const Tensor& sorted, const Scalar& value, bool right) {
  return searchsorted(sorted, ops::full({}, value, sorted.dtype(), sorted.device()), right);
}

Tensor bucketize(const Tensor& values, const Tensor& boundaries, bool right) {
  require<ShapeError>(boundaries.ndim() == 1, "bucketize: expected boundaries (n,), got ",
                      describe(boundaries));
  return searchsorted(boundaries, values, right);
}

Tensor logspace(double start, double end, int64_t count, double base, DType dtype, Device device) {
  return ops::cast(ops::pow(base, ops::linspace(start, end, count, f64, device)), dtype);
}

namespace detail {

Tensor repeated_positions(const Tensor& counts) {
  require<DTypeError>(is_integer(counts.dtype()), "repeat_interleave: expected counts of integers, got ",
                      describe(counts));
  if (counts.numel() == 0) return zeros({0}, i64, counts.device());
  const int64_t smallest = amin(counts).item_i64();
  require<ValueError>(smallest >= 0, "repeat_interleave: expected counts of at least 0, got ", smallest);
  const Tensor ends = ops::cumsum(counts, 0);
  return searchsorted(ends, arange(ends.select(0, -1).item_i64()), true);
}

}  // namespace detail
}  // namespace tessera
