#include "tensor/ops/linalg/matrices.h"

#include "tensor/ops/kernel.h"

namespace tessera::linalg {

void require_matrices(const char* where, const Tensor& x) {
  common_device(where, {&x});
  require<DTypeError>(x.dtype() == f32 || x.dtype() == f64, where, ": expected f32 or f64, got ", describe(x),
                      "; cast it, for example by to(f32)");
  require<ShapeError>(x.ndim() >= 2, where, ": expected matrices (..., m, n), got ", describe(x));
}

void require_square(const char* where, const Tensor& x) {
  require_matrices(where, x);
  require<ShapeError>(x.size(-1) == x.size(-2), where, ": expected square matrices, got ", describe(x));
}

Shape batch_shape(const Shape& shape, int inner) {
  return Shape(std::span<const int64_t>(shape.begin(), static_cast<size_t>(shape.ndim() - inner)));
}

Shape joined(const Shape& batch, const Shape& inner) {
  Shape shape = batch;
  for (const int64_t extent : inner) shape.push_back(extent);
  return shape;
}

}  // namespace tessera::linalg
