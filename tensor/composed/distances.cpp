#include "tensor/composed/distances.h"

#include "tensor/composed/functions.h"
#include "tensor/composed/shaping/arrangements.h"
#include "tensor/functions.h"
#include "tensor/ops/linalg/distance.h"

namespace tessera {

Tensor cdist(const Tensor& a, const Tensor& b, double p) {
  return ops::cdist(a, b, p);
}

Tensor pdist(const Tensor& x, double p) {
  require<ShapeError>(x.ndim() == 2, "pdist: expected rows (n, d), got ", describe(x));
  const int64_t n = x.size(0);
  const Tensor pairs = triu_indices(n, n, 1).to(x.device());
  return ops::take(ops::cdist(x, x, p), ops::add(ops::mul(pairs[0], Scalar(n)), pairs[1]));
}

}  // namespace tessera
