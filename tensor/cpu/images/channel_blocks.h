#pragma once  // internal

#include "tensor/cpu/loops/channel_rows.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/tensor.h"
#include "tensor/types/accumulator.h"

/// What the norms of channels share: values in blocks that stay in the first-level cache.
namespace tessera::kernels::cpu {

inline constexpr int64_t block_elements = 2048;

template <class A>
const ChannelRows<A>& channel_rows() {
  if constexpr (std::is_same_v<A, float>)
    return TESSERA_PER_ISA(channel_rows_f32)();
  else
    return TESSERA_PER_ISA(channel_rows_f64)();
}

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
template <class A>
void set_value(const Tensor& tensor, int64_t c, double value) {
  if (tensor.defined()) static_cast<A*>(tensor.raw_data())[c] = static_cast<A>(value);
}

/// A block as the type that is computed in: itself, or a widened copy in `buffer`.
template <class T>
const accumulator_of<T>* read(const T* x, int64_t n, accumulator_of<T>* buffer) {
  if constexpr (std::is_same_v<T, accumulator_of<T>>) {
    return x;
  } else {
    widen_contiguous(x, n, buffer);
    return buffer;
  }
}
/// Where a block of results is computed, and storing it.
template <class T>
accumulator_of<T>* result(T* y, accumulator_of<T>* buffer) {
  if constexpr (std::is_same_v<T, accumulator_of<T>>)
    return y;
  else
    return buffer;
}
template <class T>
void store_result(const accumulator_of<T>* row, int64_t n, T* y) {
  if constexpr (!std::is_same_v<T, accumulator_of<T>>) narrow_contiguous(row, n, y);
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

/// Values of one thread: a few blocks.
template <class A>
struct Buffers {
  Scratch<A> memory{3 * block_elements};
  A* x() const { return memory.get(); }
  A* dy() const { return memory.get() + block_elements; }
  A* out() const { return memory.get() + 2 * block_elements; }
};

}  // namespace tessera::kernels::cpu
