#pragma once

#include "autograd/functions/images/rearranging.h"
#include "nn/layer.h"

namespace tessera::nn {

/// Options of the paddings.
struct PadOptions {
  /// Elements before and after the last dimension, then those of the one before it, and so on; one entry
  /// stands for all sides. For constants a negative number removes elements.
  Shape padding;
  double value = 0;  ///< of a constant padding
};

/// `pad(x, padding, mode, value)` of the last `dims` dimensions of x (N, C, ...) or (C, ...).
template <int dims, PaddingMode mode>
struct Pad : Layer<Pad<dims, mode>, PadOptions> {
  /// Throws ConfigError for a list of other than 1 or 2 `dims` entries.
  /// @{
  explicit Pad(PadOptions options);
  explicit Pad(const Shape& padding, double value = 0) : Pad(PadOptions{padding, value}) {}
  /// @}
  std::string kind() const override;
  std::string describe_options() const override { return text(this->o.padding); }
  /// x with its padding. Throws ShapeError naming the layer for another rank.
  Variable forward(const Variable& x) const;
};
/// The paddings by PyTorch's names; ZeroPad is a ConstantPad of value 0.
/// @{
using ConstantPad1d = Pad<1, PaddingMode::constant>;
using ConstantPad2d = Pad<2, PaddingMode::constant>;
using ConstantPad3d = Pad<3, PaddingMode::constant>;
using ZeroPad1d = ConstantPad1d;
using ZeroPad2d = ConstantPad2d;
using ZeroPad3d = ConstantPad3d;
using ReflectionPad1d = Pad<1, PaddingMode::reflect>;
using ReflectionPad2d = Pad<2, PaddingMode::reflect>;
using ReflectionPad3d = Pad<3, PaddingMode::reflect>;
using ReplicationPad1d = Pad<1, PaddingMode::replicate>;
using ReplicationPad2d = Pad<2, PaddingMode::replicate>;
using ReplicationPad3d = Pad<3, PaddingMode::replicate>;
using CircularPad1d = Pad<1, PaddingMode::circular>;
using CircularPad2d = Pad<2, PaddingMode::circular>;
using CircularPad3d = Pad<3, PaddingMode::circular>;
/// @}

}  // namespace tessera::nn
