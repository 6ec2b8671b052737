#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"
#include "tensor/types/accumulator.h"

namespace tessera::kernels::cpu {

/// What a batch norm does to the values of each of C channels: y = (x - mean) scale + shift, and max(y, 0)
/// where `relu` is set. `shift` may be null.
template <class A>
struct ChannelMaps {
  const A *mean, *scale, *shift;
  bool relu = false;
};

/// Batch norm of a block of channels-last values of type T: `rows` positions of C contiguous channels. A is
/// the type that T is computed in.
template <class T>
struct ChannelColumns {
  using A = accumulator_of<T>;
  /// The mean of each channel, and the sum of the squared deviations from it.
  void (*moments)(const T* x, int64_t rows, int64_t channels, A* mean, A* squares);
  /// y of the maps, plus `added` before the relu unless it is null; y may be x.
  void (*apply)(const T* x, const T* added, int64_t rows, int64_t channels, const ChannelMaps<A>& maps, T* y);
  /// The sums of g and of g (x - mean). g is dy, or 0 where the relu gave 0: that of the maps, or, where `y`
  /// is not null, of a result y, and g is then stored in `passed`.
  void (*sums)(const T* x, const T* dy, const T* y, int64_t rows, int64_t channels,
               const ChannelMaps<A>& maps, A* sum, A* along, T* passed);
  /// dx = scale g - along (x - mean) - constant, of a dy that has passed the result's relu if there is one;
  /// dx may be x or dy.
  void (*gradient)(const T* x, const T* dy, int64_t rows, int64_t channels, const ChannelMaps<A>& maps,
                   const A* along, const A* constant, T* dx);
};

// clang-format off
TESSERA_DECLARE_PER_ISA(
  const ChannelColumns<float>& channel_columns_f32();
  const ChannelColumns<double>& channel_columns_f64();
  const ChannelColumns<bfloat16>& channel_columns_bf16();
  const ChannelColumns<float16>& channel_columns_f16();
)
// clang-format on

}  // namespace tessera::kernels::cpu
