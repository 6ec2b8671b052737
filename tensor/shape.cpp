#include "tensor/shape.h"

#include <algorithm>

#include "tensor/error.h"

namespace tessera {

Shape::Shape(std::span<const int64_t> dims) {
  require<ShapeError>(dims.size() <= max_rank, "a tensor has at most ", max_rank, " dimensions, got ",
                      dims.size());
  rank_ = static_cast<int32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), dims_);
}

Shape Shape::filled(int rank, int64_t value) {
  require<ShapeError>(rank <= max_rank, "a tensor has at most ", max_rank, " dimensions, got ", rank);
  Shape shape;
  shape.rank_ = rank;
  std::fill_n(shape.dims_, rank, value);
  return shape;
}

void Shape::throw_too_large() const {
  throw ShapeError(text("the shape ", *this, " has more elements than 64 bits hold"));
}

void Shape::require_rank(size_t expected) const {
  require<ShapeError>(static_cast<size_t>(rank_) == expected, "dims: expected ", expected,
                      " dimensions, one per name, got the shape ", *this);
}

void Shape::push_back(int64_t dim) {
  insert(rank_, dim);
}

void Shape::insert(int64_t position, int64_t dim) {
  require<ShapeError>(rank_ < max_rank, "a tensor has at most ", max_rank,
                      " dimensions: no room for one more in ", *this);
  std::copy_backward(dims_ + position, dims_ + rank_, dims_ + rank_ + 1);
  dims_[position] = dim;
  ++rank_;
}

void Shape::erase(int64_t position) {
  std::copy(dims_ + position + 1, dims_ + rank_, dims_ + position);
  --rank_;
}

std::string to_string(const Shape& shape) {
  std::string s = "(";
  for (int i = 0; i < shape.rank(); ++i) s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + (shape.rank() == 1 ? ",)" : ")");
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride = multiply_sizes(stride, std::max<int64_t>(shape[i], 1), "strides of a tensor");
  }
  return strides;
}

int64_t normalize_dim(int64_t dim, int64_t rank, const char* where) {
  const int64_t span = std::max<int64_t>(rank, 1);  // a 0-dim tensor accepts 0 and -1, as PyTorch's does
  require<IndexError>(dim >= -span && dim < span, where, ": dimension ", dim, " is outside [", -span, ", ",
                      span - 1, "] of a tensor of ", rank, " dimensions");
  return dim < 0 ? dim + span : dim;
}

namespace detail {
void throw_size_overflow(int64_t a, const char* operation, int64_t b, const char* where) {
  throw ShapeError(text(where, ": ", a, " ", operation, " ", b, " is more than 64 bits hold"));
}
}  // namespace detail

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* where) {
  if (a == b) return a;
  const int rank = std::max(a.rank(), b.rank());
  Shape out = Shape::filled(rank, 1);
  for (int i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.rank() ? a[a.rank() - i] : 1;
    const int64_t y = i <= b.rank() ? b[b.rank() - i] : 1;
    require<ShapeError>(x == y || x == 1 || y == 1, where, ": shapes ", a, " and ", b,
                        " do not broadcast: dimension -", i, " is ", x, " and ", y);
    out[rank - i] = x == 1 ? y : x;
  }
  return out;
}

}  // namespace tessera
