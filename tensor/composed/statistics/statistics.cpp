#include "tensor/composed/statistics/statistics.h"

#include <algorithm>
#include <cmath>

#include "tensor/functions.h"

namespace tessera {
using X = Tensor;
namespace {

const Tensor& values_of(const Tensor& x) {
  return x;
}

}  // namespace

Tensor histc(const Tensor& x, int64_t bins, double min, double max) {
  require<DTypeError>(is_floating(x.dtype()), "histc: expected a floating dtype, got ", x.dtype());
  require<ValueError>(bins >= 1, "histc: expected at least one bin, got ", bins);
  require<ValueError>(std::isfinite(min) && std::isfinite(max) && min <= max,
                      "histc: expected finite bounds that rise, got ", min, " and ", max);
  Tensor flat = cast(x.reshape({x.numel()}), f64);
  if (min == max && x.numel() > 0) {
    min = amin(flat).item();
    max = amax(flat).item();
    require<ValueError>(std::isfinite(min) && std::isfinite(max),
                        "histc: expected finite values where no bounds are given, got ", min, " to ", max);
  }
  if (min == max) {
    min -= 1;
    max += 1;
  }
  if (x.is_meta()) return Tensor::empty({bins}, x.dtype(), x.device());
  flat = ops::masked_select(
      flat, ops::logical_and(greater_equal(flat, Scalar(min)), less_equal(flat, Scalar(max))));
  const Tensor place =
      ops::floor(ops::mul(ops::sub(flat, Scalar(min)), Scalar(static_cast<double>(bins) / (max - min))));
  return cast(bincount(ops::minimum(cast(place, i64), Scalar(bins - 1)), {}, bins), x.dtype());
}

}  // namespace tessera

#include "tensor/composed/statistics/statistics.inc"
