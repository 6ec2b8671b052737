#pragma once  // internal

#include "tensor/cpu/loops/convert.h"
#include "tensor/tensor.h"

/// Values of single channels, which both layouts of a batch norm read and write.
namespace tessera::kernels::cpu {

/// Null for an undefined tensor.
template <class T>
T* data_of(const Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.raw_data()) : nullptr;
}

/// Value c of a vector (C) of T or of its accumulator; `otherwise` of an undefined one.
template <class T>
accumulator_of<T> value_at(const Tensor& tensor, int64_t c, double otherwise) {
  using A = accumulator_of<T>;
  if (!tensor.defined()) return static_cast<A>(otherwise);
  if (tensor.dtype() == dtype_of<A>) return static_cast<const A*>(tensor.raw_data())[c];
  return widen<A>(static_cast<const T*>(tensor.raw_data())[c]);
}
/// Writes value c, unless the tensor is undefined.
template <class A>
void set_value(const Tensor& tensor, int64_t c, double value) {
  if (tensor.defined()) static_cast<A*>(tensor.raw_data())[c] = static_cast<A>(value);
}

/// The moments of blocks, merged in f64 (Chan et al. 1979).
struct Moments {
  double count = 0, mean = 0, squares = 0;
  void merge(double n, double block_mean, double block_squares) {
    const double total = count + n, delta = block_mean - mean;
    mean += delta * n / total;
    squares += block_squares + delta * delta * count * n / total;
    count = total;
  }
};

}  // namespace tessera::kernels::cpu
