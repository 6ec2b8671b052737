#pragma once  // internal

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/tensor.h"

/// What the norms of channels share.
namespace tessera::kernels::cuda {

/// Null for an undefined tensor.
template <class T>
T* typed_or_null(const Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.raw_data()) : nullptr;
}

/// The values (C) of T, or of the type that it is computed in; `otherwise` of an undefined tensor.
template <class T>
struct ChannelVector {
  using A = Computed<T>;
  const A* wide;
  const T* narrow;
  A otherwise;

  ChannelVector(const Tensor& tensor, double value)
      : wide(nullptr), narrow(nullptr), otherwise(static_cast<A>(value)) {
    if (!tensor.defined()) return;
    if (tensor.dtype() == dtype_of<A>)
      wide = static_cast<const A*>(tensor.raw_data());
    else
      narrow = static_cast<const T*>(tensor.raw_data());
  }
  __device__ A operator[](int64_t c) const {
    return wide != nullptr ? wide[c] : narrow != nullptr ? loaded(narrow[c]) : otherwise;
  }
};

/// Where the values of channels lie: contiguous (N, C, length), or the channels last, which is a length of 1.
struct ChannelLayout {
  int64_t channels, length, per_channel;

  ChannelLayout(const Tensor& x, bool channels_last)
      : channels(x.shape()[1]),
        length(channels_last ? 1 : x.numel() / (x.shape()[0] * x.shape()[1])),
        per_channel(x.numel() / x.shape()[1]) {}
  /// Value j of a channel.
  __device__ int64_t at(int64_t channel, int64_t j) const {
    return length == 1 ? j * channels + channel : (j / length * channels + channel) * length + j % length;
  }
};

/// Channels that the threads of a block take: one, or, where neighbouring channels are neighbours in memory,
/// 32, with `threads_per_block` / 32 threads each. gridDim.y segments of each.
struct ChannelTeams {
  unsigned per_block, segments;
  int64_t segment_length;

  ChannelTeams(const ChannelLayout& layout, Device device) : per_block(layout.length == 1 ? 32 : 1) {
    const int64_t blocks = (layout.channels + per_block - 1) / per_block;
    const int64_t wanted = 4 * int64_t{cuda_runtime::facts_of(device).multiprocessors} / blocks;
    const int64_t least = int64_t{16} * threads_per_block / per_block;  // values of a segment
    segments =
        static_cast<unsigned>(std::clamp<int64_t>(std::min(wanted, layout.per_channel / least), 1, 1024));
    segment_length = (layout.per_channel + segments - 1) / segments;
    segments =
        static_cast<unsigned>((layout.per_channel + segment_length - 1) / segment_length);  // none is empty
  }
  dim3 grid(const ChannelLayout& layout) const {
    return dim3(static_cast<unsigned>((layout.channels + per_block - 1) / per_block), segments);
  }

  __device__ int64_t channel() const {
    return static_cast<int64_t>(blockIdx.x) * per_block + threadIdx.x % per_block;
  }
  /// Calls `body(j)` for this thread's values of the segment.
  template <class Body>
  __device__ void for_each(const ChannelLayout& layout, const Body& body) const {
    const int64_t begin = blockIdx.y * segment_length, end = min(layout.per_channel, begin + segment_length);
    for (int64_t j = begin + threadIdx.x / per_block; j < end; j += threads_per_block / per_block) body(j);
  }
  __device__ int64_t values_of_segment(const ChannelLayout& layout) const {
    const int64_t begin = blockIdx.y * segment_length;
    return min(layout.per_channel - begin, segment_length);
  }
  /// The sum over the threads of a channel, in a tree of fixed shape; every thread gets it. `scratch`:
  /// `threads_per_block` values in shared memory.
  __device__ double sum(double value, double* scratch) const {
    scratch[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = threads_per_block / 2; half >= per_block; half /= 2) {
      if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
      __syncthreads();
    }
    const double total = scratch[threadIdx.x % per_block];
    __syncthreads();
    return total;
  }
};

}  // namespace tessera::kernels::cuda
