#include "tensor/ops/view.h"

namespace tessera::ops {

Tensor reshape(const Tensor& x, const Shape& shape) {
  return x.reshape(shape);
}

Tensor view(const Tensor& x, const Shape& shape) {
  return x.view(shape);
}

Tensor flatten(const Tensor& x, int64_t start, int64_t end) {
  return x.flatten(start, end);
}

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1) {
  return x.transpose(dim0, dim1);
}

Tensor permute(const Tensor& x, const Shape& order) {
  return x.permute(order);
}

Tensor expand(const Tensor& x, const Shape& shape) {
  return x.expand(shape);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  return x.expand(shape);
}

Tensor slice(const Tensor& x, int64_t dim, int64_t start, int64_t end, int64_t step) {
  return x.slice(dim, start, end, step);
}

Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  return x.narrow(dim, start, length);
}

Tensor select(const Tensor& x, int64_t dim, int64_t i) {
  return x.select(dim, i);
}

Tensor unsqueeze(const Tensor& x, int64_t dim) {
  return x.unsqueeze(dim);
}

Tensor squeeze(const Tensor& x, int64_t dim) {
  return x.squeeze(dim);
}

Tensor squeeze(const Tensor& x) {
  return x.squeeze();
}

Tensor t(const Tensor& x) {
  require<ShapeError>(x.ndim() <= 2, "t: expected at most two dimensions, got ", describe(x),
                      "; use transpose(x, -2, -1)");
  return x.ndim() < 2 ? x : x.transpose(0, 1);
}

std::vector<Tensor> unbind(const Tensor& x, int64_t dim) {
  require<ShapeError>(x.ndim() > 0, "unbind: expected at least one dimension, got ", describe(x));
  std::vector<Tensor> views;
  for (int64_t i = 0; i < x.size(dim); ++i) views.push_back(x.select(dim, i));
  return views;
}

Tensor clone(const Tensor& x) {
  return x.clone();
}

Tensor contiguous(const Tensor& x) {
  return x.contiguous();
}

}  // namespace tessera::ops
