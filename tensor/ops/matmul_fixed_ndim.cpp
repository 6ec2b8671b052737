// Products of given numbers of dimensions, by matmul.

#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/kernel.h"
#include "tensor/ops/matmul.h"

namespace tessera::ops {

void require_ndims(const char* name, const Tensor& a, int ndim_a, const Tensor& b, int ndim_b,
                   const char* instead) {
  common_device(name, {&a, &b});
  require<ShapeError>(a.ndim() == ndim_a && b.ndim() == ndim_b, name, ": expected ", ndim_a, " and ", ndim_b,
                      " dimensions, got ", describe(a), " and ", describe(b), "; use ", instead);
}

Tensor mm(const Tensor& a, const Tensor& b) {
  require_ndims("mm", a, 2, b, 2, "matmul");
  return matmul(a, b);
}

void require_batches(const Tensor& a, const Tensor& b) {
  require_ndims("bmm", a, 3, b, 3, "matmul");
  require<ShapeError>(a.size(0) == b.size(0), "bmm: expected equal batches, got ", describe(a), " and ",
                      describe(b), "; matmul broadcasts them");
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  require_batches(a, b);
  return matmul(a, b);
}

Tensor mv(const Tensor& a, const Tensor& b) {
  require_ndims("mv", a, 2, b, 1, "matmul");
  return matmul(a, b);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  require_ndims("dot", a, 1, b, 1, "matmul, or sum(a * b)");
  return matmul(a, b);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  require_ndims("outer", a, 1, b, 1, "unsqueeze and *");
  return mul(a.unsqueeze(1), b.unsqueeze(0));
}

}  // namespace tessera::ops
