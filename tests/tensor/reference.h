#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "tensor/tensor.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

/// Reads, fills and compares tensors for tests of kernels, without the kernels under test.
namespace tessera::reference {

/// Element `index` (row-major) of any dtype and strides.
inline double element(const Tensor& x, int64_t index) {
  int64_t at = 0;
  for (int d = x.ndim() - 1; d >= 0; --d) {
    at += index % x.shape()[d] * x.strides()[d];
    index /= x.shape()[d];
  }
  return with_any(x.dtype(), [&]<class T>(TypeTag<T>) -> double {
    const T value = x.data<T>()[at];
    if constexpr (sizeof(T) == 2)
      return static_cast<float>(value);
    else
      return static_cast<double>(value);
  });
}

inline std::vector<double> elements(const Tensor& x) {
  std::vector<double> all(static_cast<size_t>(x.numel()));
  for (int64_t i = 0; i < x.numel(); ++i) all[static_cast<size_t>(i)] = element(x, i);
  return all;
}

/// A contiguous tensor of f(0), f(1), ... in row-major order, rounded to the dtype.
inline Tensor filled(const Shape& shape, DType dtype, const std::function<double(int64_t)>& f) {
  Tensor x = Tensor::empty(shape, dtype);
  with_any(dtype, [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < x.numel(); ++i) {
      if constexpr (sizeof(T) == 2)
        x.data<T>()[i] = T(static_cast<float>(f(i)));
      else
        x.data<T>()[i] = static_cast<T>(f(i));
    }
  });
  return x;
}

/// Irregular values in (-4, 4), the same on every machine.
inline double scattered(int64_t i) {
  const uint64_t mixed = (static_cast<uint64_t>(i) + 12345) * 0x9e3779b97f4a7c15ull;
  return static_cast<double>(mixed >> 40) / static_cast<double>(1 << 21) - 4.0;
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && a.is_contiguous() && b.is_contiguous() &&
         (a.numel() == 0 || std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.nbytes())) == 0);
}

/// Calls `make` with 1, 2 and 3 threads, twice each: whether the two results at one number of threads have
/// the same bits, as matrix products promise, and `close` holds for all.
inline bool repeats_at_each_number_of_threads(const std::function<Tensor()>& make,
                                              const std::function<bool(const Tensor&)>& close) {
  const int before = num_threads();
  bool same = true;
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    const Tensor first = make();
    same = same && same_bits(first, make()) && close(first);
  }
  set_num_threads(before);
  return same;
}

/// Calls `make` with 1, 2 and 3 threads: whether all three tensors have the same bits.
inline bool same_for_any_number_of_threads(const std::function<Tensor()>& make) {
  const int before = num_threads();
  set_num_threads(1);
  const Tensor one = make();
  bool same = true;
  for (int threads : {2, 3}) {
    set_num_threads(threads);
    same = same && same_bits(one, make());
  }
  set_num_threads(before);
  return same;
}

}  // namespace tessera::reference
