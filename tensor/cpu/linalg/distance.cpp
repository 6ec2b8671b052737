// Distances between the rows of two matrices, pair by pair: no memory but the results'.
#include "tensor/cpu/linalg/distance.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "tensor/arguments/distance.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

/// The distance of two rows.
template <DistanceNorm norm, class T>
T distance(const T* a, const T* b, int64_t d, T p) {
  T sum = 0;
  for (int64_t k = 0; k < d; ++k) {
    const T gap = std::abs(a[k] - b[k]);
    if constexpr (norm == DistanceNorm::count) sum += gap != 0 ? T(1) : T(0);
    if constexpr (norm == DistanceNorm::sum) sum += gap;
    if constexpr (norm == DistanceNorm::euclidean) sum += gap * gap;
    if constexpr (norm == DistanceNorm::largest) sum = gap > sum || gap != gap ? gap : sum;
    if constexpr (norm == DistanceNorm::general) sum += std::pow(gap, p);
  }
  if constexpr (norm == DistanceNorm::euclidean) return std::sqrt(sum);
  if constexpr (norm == DistanceNorm::general) return std::pow(sum, 1 / p);
  return sum;
}

/// The derivative of a distance y by a coordinate of the first row, times the gradient; 0 where y is 0.
template <DistanceNorm norm, class T>
T derivative(T gap, T y, T dy, T p) {
  const T sign = static_cast<T>((gap > 0) - (gap < 0));
  if constexpr (norm == DistanceNorm::count) return 0;
  if constexpr (norm == DistanceNorm::sum) return sign * dy;
  if constexpr (norm == DistanceNorm::largest) return std::abs(gap) == y ? sign * dy : T(0);
  if (y == 0 || gap == 0) return 0;
  if constexpr (norm == DistanceNorm::euclidean) return dy * gap / y;
  return sign * dy * std::pow(std::abs(gap) / y, p - 1);
}

/// The extents of the operands, and how many rows of `a` a thread takes at least.
struct Extents {
  int64_t batch, n, m, d;
  Extents(const Tensor& a, const Tensor& b) : batch(a.size(0)), n(a.size(1)), m(b.size(1)), d(a.size(2)) {}
  int64_t rows() const { return batch * n; }
  int64_t grain() const { return 1 + 16384 / (m * d + 1); }
};

template <DistanceNorm norm, class T>
void all_distances(double p, const Tensor& a, const Tensor& b, const Tensor& y) {
  const Extents e(a, b);
  const T *as = a.data<T>(), *bs = b.data<T>();
  T* ys = y.data<T>();
  parallel_for(e.rows(), e.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t j = 0; j < e.m; ++j)
        ys[row * e.m + j] =
            distance<norm, T>(as + row * e.d, bs + (row / e.n * e.m + j) * e.d, e.d, static_cast<T>(p));
  });
}

template <DistanceNorm norm, class T>
void all_derivatives(double p, const Tensor& a, const Tensor& b, const Tensor& y, const Tensor& dy,
                     const Tensor& da) {
  const Extents e(a, b);
  const T *as = a.data<T>(), *bs = b.data<T>(), *ys = y.data<T>(), *dys = dy.data<T>();
  T* das = da.data<T>();
  parallel_for(e.rows(), e.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* x = as + row * e.d;
      T* out = das + row * e.d;
      std::fill(out, out + e.d, T(0));
      for (int64_t j = 0; j < e.m; ++j) {
        const T* other = bs + (row / e.n * e.m + j) * e.d;
        const T value = ys[row * e.m + j], gradient = dys[row * e.m + j];
        for (int64_t k = 0; k < e.d; ++k)
          out[k] += derivative<norm, T>(x[k] - other[k], value, gradient, static_cast<T>(p));
      }
    }
  });
}

template <class T>
std::vector<T> squares_of_rows(const Tensor& x) {
  const int64_t rows = x.size(0) * x.size(1), d = x.size(2);
  const T* values = x.data<T>();
  std::vector<T> squares(static_cast<size_t>(rows), T(0));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t k = 0; k < d; ++k) squares[row] += values[row * d + k] * values[row * d + k];
  return squares;
}

template <class T>
void from_products(const Tensor& a, const Tensor& b, const Tensor& y) {
  const Extents e(a, b);
  const std::vector<T> squares_a = squares_of_rows<T>(a), squares_b = squares_of_rows<T>(b);
  const T *as = a.data<T>(), *bs = b.data<T>();
  T* ys = y.data<T>();
  parallel_for(e.rows(), e.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t j = 0; j < e.m; ++j) {
        const int64_t other = row / e.n * e.m + j;
        T& value = ys[row * e.m + j];
        const T squares = squares_a[row] + squares_b[other], rest = squares - 2 * value;
        // Below a 64th six bits of the difference are lost. Infinite ones and NaN are left to the loop, too.
        value = rest >= squares / 64 && std::isfinite(rest)
                    ? std::sqrt(rest)
                    : distance<DistanceNorm::euclidean, T>(as + row * e.d, bs + other * e.d, e.d, T(2));
      }
  });
}

/// `body` with the norm of p as a constant.
template <class Body>
void with_norm(double p, Body body) {
  using N = DistanceNorm;
  switch (distance_norm(p)) {
    case N::count:
      return body(std::integral_constant<N, N::count>());
    case N::sum:
      return body(std::integral_constant<N, N::sum>());
    case N::euclidean:
      return body(std::integral_constant<N, N::euclidean>());
    case N::largest:
      return body(std::integral_constant<N, N::largest>());
    case N::general:
      return body(std::integral_constant<N, N::general>());
  }
}

}  // namespace

void distances(double p, const Tensor& a, const Tensor& b, const Tensor& y) {
  with_norm(p, [&]<DistanceNorm norm>(std::integral_constant<DistanceNorm, norm>) {
    y.dtype() == f64 ? all_distances<norm, double>(p, a, b, y) : all_distances<norm, float>(p, a, b, y);
  });
}

void distances_from_products(const Tensor& a, const Tensor& b, const Tensor& y) {
  y.dtype() == f64 ? from_products<double>(a, b, y) : from_products<float>(a, b, y);
}

void distances_backward(double p, const Tensor& a, const Tensor& b, const Tensor& y, const Tensor& dy,
                        const Tensor& da) {
  with_norm(p, [&]<DistanceNorm norm>(std::integral_constant<DistanceNorm, norm>) {
    y.dtype() == f64 ? all_derivatives<norm, double>(p, a, b, y, dy, da)
                     : all_derivatives<norm, float>(p, a, b, y, dy, da);
  });
}

}  // namespace tessera::kernels::cpu
