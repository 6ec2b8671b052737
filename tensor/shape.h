#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>

namespace tessera {

/// A short list of integers, stored in place: a tensor's extents, its strides, or a list of axes. At most 8.
class Shape {
 public:
  /// The most entries.
  static constexpr int max_ndim = 8;

  /// No entries: the shape of a 0-dim tensor.
  Shape() = default;
  /// Throws ShapeError for more than 8 entries.
  /// @{
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);
  /// @}
  /// One entry: `sum(x, -1)` is `sum(x, {-1})`, `zeros(5)` is `zeros({5})`. A bool is not taken for a
  /// dimension.
  template <std::integral T>
  requires(!std::same_as<T, bool>) Shape(T dim) : ndim_(1), dims_{static_cast<int64_t>(dim)} {}
  /// `ndim` entries, all `value`.
  static Shape filled(int ndim, int64_t value);

  /// The number of entries.
  int ndim() const { return ndim_; }
  /// Whether there are no entries (not: no elements).
  bool empty() const { return ndim_ == 0; }
  /// Entry i, for i in [0, ndim()); not checked.
  /// @{
  int64_t operator[](int64_t i) const { return dims_[i]; }
  int64_t& operator[](int64_t i) { return dims_[i]; }
  /// @}
  /// The last entry; there must be one.
  int64_t back() const { return dims_[ndim_ - 1]; }
  /// The product of the extents; 1 for a 0-dim shape. Throws ShapeError where 64 bits do not hold it.
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < ndim_; ++i)
      if (__builtin_mul_overflow(n, dims_[i], &n)) [[unlikely]]
        throw_too_large();
    return n;
  }

  /// All entries, for a structured binding: `auto [B, T, C] = x.shape().dims<3>()`. Throws ShapeError when
  /// their number is not N.
  template <size_t N>
  std::array<int64_t, N> dims() const {
    require_rank(N);
    std::array<int64_t, N> entries{};
    for (size_t i = 0; i < N; ++i) entries[i] = dims_[i];
    return entries;
  }

  /// Appends an entry. Throws ShapeError when there are 8 already.
  void push_back(int64_t dim);
  /// Makes `dim` entry `position`, in [0, ndim()]; the entries from there on move up by one. Throws
  /// ShapeError when there are 8 already.
  void insert(int64_t position, int64_t dim);
  /// Removes entry `position`, in [0, ndim()); the entries after it move down by one.
  void erase(int64_t position);

  /// The entries as a range.
  /// @{
  const int64_t* begin() const { return dims_; }
  const int64_t* end() const { return dims_ + ndim_; }
  int64_t* begin() { return dims_; }
  int64_t* end() { return dims_ + ndim_; }
  /// @}

  /// Same number of entries, and each the same.
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.ndim_ != b.ndim_) return false;
    for (int i = 0; i < a.ndim_; ++i)
      if (a.dims_[i] != b.dims_[i]) return false;
    return true;
  }

  /// Prints `to_string(shape)`.
  friend std::ostream& operator<<(std::ostream& stream, const Shape& shape);

 private:
  [[noreturn]] void throw_too_large() const;
  void require_rank(size_t expected) const;

  int32_t ndim_ = 0;
  int64_t dims_[max_ndim] = {};
};

/// Strides in elements, one per dimension.
using Strides = Shape;

/// "(2, 128, 512)"; "(7,)" for one dimension and "()" for none, as Python writes tuples.
std::string to_string(const Shape& shape);

/// Row-major strides of a contiguous tensor; extents of 0 count as 1. Throws ShapeError where 64 bits do not
/// hold them.
Strides contiguous_strides(const Shape& shape);

/// `dim` counted from the end when negative. Throws IndexError naming `where` when outside [-ndim, ndim).
int64_t normalize_dim(int64_t dim, int64_t ndim, const char* where);

namespace detail {
[[noreturn]] void throw_size_overflow(int64_t a, const char* operation, int64_t b, const char* where);
}

/// a + b, and a times b, of sizes. Throw ShapeError naming `where` when 64 bits do not hold the result.
/// @{
inline int64_t add_sizes(int64_t a, int64_t b, const char* where) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) [[unlikely]]
    detail::throw_size_overflow(a, "+", b, where);
  return sum;
}
inline int64_t multiply_sizes(int64_t a, int64_t b, const char* where) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) [[unlikely]]
    detail::throw_size_overflow(a, "times", b, where);
  return product;
}
/// @}

/// NumPy's broadcasting of two shapes. Throws ShapeError naming `where` and both shapes.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* where);

}  // namespace tessera
