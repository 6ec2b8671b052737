#include "tensor/shape.h"

#include <algorithm>
#include <ostream>

#include "tensor/error.h"

namespace tessera {

Shape::Shape(std::span<const int64_t> dims) {
  require<ShapeError>(dims.size() <= max_ndim, "a tensor has at most ", max_ndim, " dimensions, got ",
                      dims.size());
  ndim_ = static_cast<int32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), dims_);
}

Shape Shape::filled(int ndim, int64_t value) {
  require<ShapeError>(ndim <= max_ndim, "a tensor has at most ", max_ndim, " dimensions, got ", ndim);
  Shape shape;
  shape.ndim_ = ndim;
  std::fill_n(shape.dims_, ndim, value);
  return shape;
}

void Shape::throw_too_large() const {
  throw ShapeError(text("the shape ", *this, " has more elements than 64 bits hold"));
}

void Shape::require_rank(size_t expected) const {
  require<ShapeError>(static_cast<size_t>(ndim_) == expected, "dims: expected ", expected,
                      " dimensions, one per name, got the shape ", *this);
}

void Shape::push_back(int64_t dim) {
  insert(ndim_, dim);
}

void Shape::insert(int64_t position, int64_t dim) {
  require<ShapeError>(ndim_ < max_ndim, "a tensor has at most ", max_ndim,
                      " dimensions: no room for one more in ", *this);
  std::copy_backward(dims_ + position, dims_ + ndim_, dims_ + ndim_ + 1);
  dims_[position] = dim;
  ++ndim_;
}

void Shape::erase(int64_t position) {
  std::copy(dims_ + position + 1, dims_ + ndim_, dims_ + position);
  --ndim_;
}

std::string to_string(const Shape& shape) {
  std::string s = "(";
  for (int i = 0; i < shape.ndim(); ++i) s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + (shape.ndim() == 1 ? ",)" : ")");
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  int64_t stride = 1;
  for (int i = shape.ndim() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride = multiply_sizes(stride, std::max<int64_t>(shape[i], 1), "strides of a tensor");
  }
  return strides;
}

int64_t normalize_dim(int64_t dim, int64_t ndim, const char* where) {
  const int64_t span = std::max<int64_t>(ndim, 1);  // a 0-dim tensor accepts 0 and -1, as PyTorch's does
  require<IndexError>(dim >= -span && dim < span, where, ": dimension ", dim, " is outside [", -span, ", ",
                      span - 1, "] of a tensor of ", ndim, " dimensions");
  return dim < 0 ? dim + span : dim;
}

namespace detail {
void throw_size_overflow(int64_t a, const char* operation, int64_t b, const char* where) {
  throw ShapeError(text(where, ": ", a, " ", operation, " ", b, " is more than 64 bits hold"));
}
}  // namespace detail

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* where) {
  if (a == b) return a;
  const int ndim = std::max(a.ndim(), b.ndim());
  Shape out = Shape::filled(ndim, 1);
  for (int i = 1; i <= ndim; ++i) {
    const int64_t x = i <= a.ndim() ? a[a.ndim() - i] : 1;
    const int64_t y = i <= b.ndim() ? b[b.ndim() - i] : 1;
    require<ShapeError>(x == y || x == 1 || y == 1, where, ": shapes ", a, " and ", b,
                        " do not broadcast: dimension -", i, " is ", x, " and ", y);
    out[ndim - i] = x == 1 ? y : x;
  }
  return out;
}

std::ostream& operator<<(std::ostream& stream, const Shape& shape) {
  return stream << to_string(shape);
}

}  // namespace tessera
