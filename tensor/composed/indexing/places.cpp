#include "tensor/composed/indexing/places.h"

#include "tensor/functions.h"
#include "tensor/ops/indexing/index_plan.h"
#include "tensor/ops/indexing/scatter_multiply.h"

namespace tessera {
using X = Tensor;
namespace {

const Tensor& values_of(const Tensor& x) {
  return x;
}

using ops::index_put_;
using ops::scatter_multiply;

/// bool (n,): where a vector differs from the element before; the first one does.
Tensor starts_of_groups(const Tensor& flat) {
  const int64_t n = flat.numel();
  const Tensor first = ones({std::min<int64_t>(n, 1)}, boolean, flat.device());
  if (n < 2) return first;
  return cat({first, ops::not_equal(flat.narrow(0, 1, n - 1), flat.narrow(0, 0, n - 1))});
}

}  // namespace

Tensor isin(const Tensor& x, const Tensor& test, bool invert) {
  const Tensor flat = test.reshape({test.numel()});
  if (test.numel() == 0) return full(x.shape(), Scalar(invert), boolean, x.device());
  const Tensor sorted = ops::sort(flat).values;
  const Tensor place = ops::minimum(searchsorted(sorted, x), Scalar(test.numel() - 1));
  const Tensor found = ops::equal(ops::take(sorted, place), x);
  return invert ? ops::logical_not(found) : found;
}

Tensor unique_consecutive(const Tensor& x) {
  const Tensor flat = x.reshape({x.numel()});
  return ops::masked_select(flat, starts_of_groups(flat));
}

UniqueValues unique_consecutive_all(const Tensor& x) {
  const Tensor flat = x.reshape({x.numel()}), starts = starts_of_groups(flat);
  const Tensor inverse = ops::sub(ops::cumsum(starts, 0), 1);
  return {ops::masked_select(flat, starts), inverse.view(x.shape()), bincount(inverse)};
}

Tensor searchsorted(const Tensor& unsorted, const Tensor& values, bool right, const Tensor& sorter) {
  require<ShapeError>(sorter.shape() == unsorted.shape(), "searchsorted: expected a sorter of shape ",
                      unsorted.shape(), ", got ", sorter.shape());
  return searchsorted(ops::gather(unsorted, -1, sorter), values, right);
}

}  // namespace tessera

#include "tensor/composed/indexing/places.inc"
