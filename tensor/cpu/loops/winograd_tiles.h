#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"
#include "tensor/types/float_types.h"

/// The linear maps of Winograd's convolution F(4x4, 3x3), for many channels at once: `channels` is a multiple
/// of 16, and the values of a pixel's channels are contiguous. A tile's 36 transformed values of a channel
/// are `step` elements apart. tensor/cpu/convolution/README.md has the matrices.
namespace tessera::kernels::cpu {

/// Channels are taken in multiples of this.
inline constexpr int64_t winograd_lanes = 16;
/// Values of a transformed tile.
inline constexpr int64_t winograd_values = 36;
/// Rows and columns of y that a tile has, and of x that it reads.
inline constexpr int64_t winograd_outputs = 4, winograd_inputs = 6;

/// The maps of pixels of type T, float or bfloat16.
template <class T>
struct WinogradTiles {
  /// v = B^T x B of 6 x 6 pixels, row-major.
  void (*input)(const T* const* pixels, int64_t channels, float* v, int64_t step);
  /// y = A^T m A, plus `bias` and the pixels `added` unless they are null, and then, with `relu`, at least 0,
  /// into 4 x 4 pixels; null ones are left out.
  void (*output)(const float* m, int64_t step, int64_t channels, const float* bias, const T* const* added,
                 bool relu, T* const* pixels);
  /// d = A dy A^T of 4 x 4 pixels: the transpose of `output`.
  void (*output_gradient)(const T* const* pixels, int64_t channels, float* d, int64_t step);
};

// The maps of weights. The 9 taps of w, or dw, are `taps` elements apart.
// clang-format off
TESSERA_DECLARE_PER_ISA(
  const WinogradTiles<float>& winograd_tiles_f32();
  const WinogradTiles<bfloat16>& winograd_tiles_bf16();
  /// u = G w G^T.
  void winograd_weight(const float* w, int64_t taps, int64_t channels, float* u, int64_t step);
  /// dw = G^T du G: the transpose.
  void winograd_weight_gradient(const float* du, int64_t step, int64_t channels, float* dw, int64_t taps);
)
// clang-format on

}  // namespace tessera::kernels::cpu
