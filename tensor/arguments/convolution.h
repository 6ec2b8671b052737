#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "tensor/shape.h"

namespace tessera {

/// The padding argument of a convolution: zeros on both sides of each spatial dimension (one amount for all,
/// or one for each), "same" (y has x's spatial extents, for a stride of 1; where the sum is odd the further
/// zero stands at the end), or "valid" (none).
class ConvPadding {
 public:
  ConvPadding() = default;
  /// The amounts.
  /// @{
  template <std::integral T>
  requires(!std::same_as<T, bool>) ConvPadding(T amount) : amounts_(amount) {}
  ConvPadding(std::initializer_list<int64_t> amounts) : amounts_(amounts) {}
  ConvPadding(const Shape& amounts) : amounts_(amounts) {}
  /// @}
  /// "same" or "valid". Throw ValueError for another name.
  /// @{
  ConvPadding(std::string_view name);
  ConvPadding(const char* name) : ConvPadding(std::string_view(name)) {}
  /// @}

  /// Whether it is "same".
  bool is_same() const { return same_; }
  /// The amounts: one for all dimensions, or one for each; 0 for "same".
  const Shape& amounts() const { return amounts_; }

 private:
  Shape amounts_ = 0;
  bool same_ = false;
};

/// "same", or the amounts as a shape is written.
std::string to_string(const ConvPadding& padding);

/// Extents or amounts of the spatial dimensions (depth, height, width); of fewer the last ones, the others
/// neutral.
using SpatialValues = std::array<int64_t, 3>;

/// A convolution with all of its sizes: x (N, C_in, ...) and a weight (C_out, C_in / groups, ...) give y (N,
/// C_out, ...), of 1 to 3 spatial dimensions. A transposed convolution has the geometry of the convolution of
/// which it is the transpose: it goes from y to x.
struct ConvolutionGeometry {
  int ndim = 2;                     ///< spatial dimensions
  int64_t batch = 0;                ///< N
  int64_t in_channels = 0;          ///< C_in
  int64_t out_channels = 0;         ///< C_out
  int64_t groups = 1;               ///< divides both numbers of channels
  SpatialValues in{1, 1, 1};        ///< spatial extents of x
  SpatialValues out{1, 1, 1};       ///< of y
  SpatialValues kernel{1, 1, 1};    ///< of the weight
  SpatialValues stride{1, 1, 1};    ///< between windows
  SpatialValues padding{0, 0, 0};   ///< zeros before x; those after it follow from `out`
  SpatialValues dilation{1, 1, 1};  ///< elements of x from one element of a window to the next

  /// Channels of one group.
  /// @{
  int64_t group_in() const { return in_channels / groups; }
  int64_t group_out() const { return out_channels / groups; }
  /// @}
  /// Elements of a channel of y: the windows of an image.
  int64_t positions() const { return out[0] * out[1] * out[2]; }
  /// Elements of a channel of x.
  int64_t in_positions() const { return in[0] * in[1] * in[2]; }
  /// Elements of the kernel for one channel.
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  /// Elements of a window over all channels of a group: the length of one element's sum.
  int64_t rows() const { return group_in() * taps(); }
  /// Multiply-adds of the convolution, and of each of its gradients.
  int64_t multiply_adds() const { return batch * positions() * out_channels * rows(); }

  /// The shapes of x, weight and y.
  /// @{
  Shape x_shape() const { return with_spatial(batch, in_channels, in); }
  Shape weight_shape() const { return with_spatial(out_channels, group_in(), kernel); }
  Shape y_shape() const { return with_spatial(batch, out_channels, out); }
  /// @}

 private:
  Shape with_spatial(int64_t first, int64_t second, const SpatialValues& extents) const {
    Shape shape{first, second};
    for (int i = 3 - ndim; i < 3; ++i) shape.push_back(extents[i]);
    return shape;
  }
};

}  // namespace tessera
