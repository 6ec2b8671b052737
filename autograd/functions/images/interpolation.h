#pragma once

#include "autograd/variable.h"
#include "tensor/ops/images/interpolation.h"

namespace tessera {

using ops::InterpolateOptions;

/// x (N, C, ...), with one to three dimensions of planes, resampled to another size, as
/// torch.nn.functional.interpolate without antialiasing. A linear map: saves nothing. Throws as
/// `ops::interpolate`.
///
///     interpolate(x, {.scale_factor = {2}, .mode = InterpolationMode::bilinear});
///     interpolate(x, {.size = {224, 224}, .mode = InterpolationMode::bicubic, .align_corners = true});
Variable interpolate(const Variable& x, const InterpolateOptions& options);

/// How `grid_sample` reads between elements.
enum class GridSampleMode : uint8_t { bilinear, nearest };
/// What `grid_sample` reads outside of x: zeros, the nearest element of the border, or x reflected there.
enum class GridSamplePadding : uint8_t { zeros, border, reflection };

/// The points of a grid for `grid_sample`, of an affine map theta (N, 2, 3) for size (N, C, H, W), giving (N,
/// H, W, 2), or (N, 3, 4) for (N, C, D, H, W), giving (N, D, H, W, 3). Coordinates of the result run from -1
/// to 1, x first (Jaderberg et al. 2015). Throws ShapeError.
Variable affine_grid(const Variable& theta, const Shape& size, bool align_corners = false);

/// The values of x (N, C, H, W) at the points `grid` (N, h, w, 2), giving (N, C, h, w); or of (N, C, D, H, W)
/// at (N, d, h, w, 3). -1 and 1 are the borders of x, or with `align_corners` the centres of its first and
/// last elements. `bilinear` is trilinear for volumes. Differentiable by both, to any order; made of other
/// functions. Throws ShapeError.
Variable grid_sample(const Variable& x, const Variable& grid, GridSampleMode mode = GridSampleMode::bilinear,
                     GridSamplePadding padding = GridSamplePadding::zeros, bool align_corners = false);

}  // namespace tessera
