#pragma once  // internal

#include "tensor/cpu/images/channel_values.h"
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

/// Values of one thread: a few blocks.
template <class A>
struct Buffers {
  Scratch<A> memory{3 * block_elements};
  A* x() const { return memory.get(); }
  A* dy() const { return memory.get() + block_elements; }
  A* out() const { return memory.get() + 2 * block_elements; }
};

}  // namespace tessera::kernels::cpu
