#pragma once  // internal

#include <algorithm>
#include <cstdint>

#include "tensor/arguments/attention_call.h"
#include "tensor/cuda/elementwise/element.cuh"

/// A call of attention as kernels take it. B batch, H heads, T time, D head width.
namespace tessera::kernels::cuda::fused_attention {

/// A tensor (B, H, T, D) with a last stride of 1.
template <class T>
struct Heads {
  T* data = nullptr;
  int64_t batch = 0, head = 0, row = 0;  ///< strides
  bool packed = false;                   ///< whether every row begins at 16 bytes and consists of such packs

  Heads() = default;
  explicit Heads(const Tensor& x) : data(static_cast<T*>(x.raw_data())) {
    const Strides& strides = x.strides();
    batch = strides[0], head = strides[1], row = strides[2];
    constexpr int64_t pack = 16 / sizeof(T);
    packed = x.shape()[3] % pack == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
    for (int d = 0; d < 3; ++d) packed = packed && (x.shape()[d] == 1 || strides[d] % pack == 0);
  }
  __device__ T* of(int b, int h) const { return data + b * batch + h * head; }
};

/// A short vector that comes with the launch; a long one lies in the device's memory.
template <class T, int N>
struct ArgumentVector {
  static constexpr int inline_size = N;
  const T* device = nullptr;
  int32_t size = 0;  ///< 0: there is none
  T values[N];

  __device__ bool empty() const { return size == 0; }
  __device__ T operator[](int i) const { return device != nullptr ? device[i] : values[i]; }
};

/// The samples of a batch's rows.
using SampleNumbers = ArgumentVector<uint32_t, 48>;

/// The random words of dropout: element (h T_q + i) T_k + j of a sample's mask.
struct Dropout {
  uint64_t key = 0;
  uint32_t step = 0;
  uint32_t threshold = 0;  ///< kept: word >= threshold
  bool drops = false;

  Dropout() = default;
  Dropout(double dropout, uint64_t mask_key, int64_t mask_step)
      : key(mask_key), step(static_cast<uint32_t>(mask_step)), drops(dropout > 0) {
    // As the CPU's: a threshold of 2^32 keeps the largest word.
    threshold =
        static_cast<uint32_t>(std::min<uint64_t>(static_cast<uint64_t>(dropout * 0x1p32 + 0.5), 0xffffffffu));
  }
};

/// What the weights depend on besides q and k. A is the accumulators' type.
template <class A>
struct Weights {
  int32_t heads, group, queries, keys, width;  ///< group: heads of q that share one of k and v
  A scale;
  bool causal;
  int64_t window;                    ///< 0: none
  const Boolean* visible = nullptr;  ///< a mask of bools
  const A* added = nullptr;          ///< or one that is added
  int64_t mask_strides[4] = {};
  Dropout dropout;
  A kept;  ///< the factor of weights that are not dropped
  ArgumentVector<int64_t, 48> first_positions;
  SampleNumbers samples;
  ArgumentVector<A, 64> slopes;

  __device__ int64_t position(int b) const {
    return first_positions.empty() ? int64_t{keys} - queries : first_positions[b];
  }
  __device__ uint32_t sample(int b) const { return samples.empty() ? static_cast<uint32_t>(b) : samples[b]; }
  /// Whether a weight depends on more than the range of keys that its query sees.
  __host__ __device__ bool has_extras() const {
    return visible != nullptr || added != nullptr || dropout.drops || slopes.size > 0;
  }
};

/// The operands of the forward kernels.
template <class T>
struct Forward {
  using A = Computed<T>;
  Heads<const T> q, k, v;
  Heads<T> out;
  A *largest, *log_sum;  ///< (B, H, T_q) each
  Weights<A> weights;
};

/// The operands of the backward kernels.
template <class T>
struct Backward {
  using A = Computed<T>;
  Heads<const T> q, k, v, dout;
  Heads<T> dq, dk, dv;
  const A *largest, *log_sum, *delta;  ///< (B, H, T_q) each; delta: the sums of dout out
  Weights<A> weights;
};

}  // namespace tessera::kernels::cuda::fused_attention
