#pragma once

#include <vector>

#include "tensor/arguments/pooling.h"

namespace tessera {

/// How `interpolate` computes an element of the result. The names are PyTorch's: `linear` is for one
/// dimension of planes, `bilinear` and `bicubic` for two, `trilinear` for three.
enum class InterpolationMode : uint8_t {
  nearest,        ///< the element at floor(i n / m)
  nearest_exact,  ///< the element at floor((i + 1/2) n / m), as image libraries have it
  linear,         ///< between the two nearest elements
  bilinear,       ///< the same along height and width
  trilinear,      ///< the same along depth, height and width
  bicubic,        ///< between four elements each way, by Keys' cubic with a = -3/4
  area            ///< the average of the elements below it, as adaptive average pooling
};
/// PyTorch's name: "nearest", "nearest-exact", "linear", ...
const char* name_of(InterpolationMode mode);

namespace ops {

/// Options of `interpolate`: either `size` or `scale_factor` is given.
struct InterpolateOptions {
  Shape size = {};                        ///< of the result's planes; one entry stands for all dimensions
  std::vector<double> scale_factor = {};  ///< the result's extents, rounded down, over those of x
  InterpolationMode mode = InterpolationMode::nearest;  ///< what is between two elements
  /// The first and last elements of x and of the result lie on each other; else the borders of these elements
  /// do. For linear and cubic modes.
  bool align_corners = false;
  /// With `scale_factor`: distances follow from the extents as rounded, not from the factor.
  bool recompute_scale_factor = false;
};

/// x (N, C, ...) with one to three dimensions of planes, resampled to another size; any floating dtype.
/// Positions are computed in f64. Throws ShapeError for another rank or lists of other lengths, ValueError
/// for sizes below 1, for a mode of other dimensions, and where not exactly one of size and scale_factor is
/// given.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);
/// The gradient at x, of shape `shape`: the transposed map.
Tensor interpolate_backward(const Tensor& dy, const Shape& shape, const InterpolateOptions& options);

}  // namespace ops
}  // namespace tessera
