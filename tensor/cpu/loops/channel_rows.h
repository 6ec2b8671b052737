#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"

namespace tessera::kernels::cpu {

/// What a batch norm does to the values of one channel: y = (x - mean) scale + shift, and max(y, 0) where
/// `relu` is set.
template <class A>
struct ChannelMap {
  A mean = 0, scale = 1, shift = 0;
  bool relu = false;
};

/// Batch norm of n contiguous values of one channel, A = float or double.
template <class A>
struct ChannelRows {
  /// The mean, and the sum of the squared deviations from it.
  void (*moments)(const A* x, int64_t n, A* mean, A* squares);
  /// y of the map; y may be x.
  void (*apply)(const A* x, int64_t n, ChannelMap<A> map, A* y);
  /// The sums of g and of g (x - mean), where g is dy, or 0 where the map's relu gave 0.
  void (*sums)(const A* x, const A* dy, int64_t n, ChannelMap<A> map, A* sum, A* along);
  /// dx = scale g - along (x - mean) - constant; dx may be x or dy.
  void (*gradient)(const A* x, const A* dy, int64_t n, ChannelMap<A> map, A along, A constant, A* dx);
};

// clang-format off
TESSERA_DECLARE_PER_ISA(
  const ChannelRows<float>& channel_rows_f32();
  const ChannelRows<double>& channel_rows_f64();
)
// clang-format on

}  // namespace tessera::kernels::cpu
