#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/images/interpolation.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/elementwise/unary.h"

namespace tessera {
namespace {

/// n coordinates from -1 to 1: of the centres of n elements, the borders of the first and last at -1 and 1,
/// or with `align_corners` their centres.
Tensor coordinates(int64_t n, bool align_corners, const Variable& like) {
  const double count = static_cast<double>(n);
  const Tensor index = ops::arange(0, count, 1, f64, like.device());
  const Tensor placed = align_corners
                            ? (n > 1 ? ops::sub(ops::mul(index, 2 / (count - 1)), 1) : ops::mul(index, 0))
                            : ops::sub(ops::mul(ops::add(index, 0.5), 2 / count), 1);
  return ops::cast(placed, like.dtype());
}

/// Coordinates reflected at `low` and `high` until they lie between.
Variable reflected(const Variable& at, double low, double high) {
  if (high <= low) return at * 0.0;
  const double span = high - low;
  const Variable distance = abs(at - low);
  const Tensor turns = ops::floor(ops::div(distance.value(), span));
  const Variable beyond = distance - Variable(turns) * span;
  const Tensor odd = ops::cast(ops::equal(ops::remainder(turns, 2), 1), at.dtype());
  const Variable is_odd(odd);
  return beyond * (1.0 - is_odd) + (span - beyond) * is_odd + low;
}

/// The position among n elements of a coordinate in [-1, 1], moved into them as `padding` says.
Variable position(const Variable& coordinate, int64_t n, GridSamplePadding padding, bool align_corners) {
  const double last = static_cast<double>(n - 1), count = static_cast<double>(n);
  Variable at = align_corners ? (coordinate + 1.0) * (last / 2) : ((coordinate + 1.0) * count - 1.0) * 0.5;
  if (padding == GridSamplePadding::reflection)
    at = align_corners ? reflected(at, 0, last) : reflected(at, -0.5, count - 0.5);
  if (padding != GridSamplePadding::zeros) at = minimum(maximum(at, 0.0), last);
  return at;
}

/// An element beside a position, along one dimension: its index, moved into x, and its weight, 0 outside.
struct Neighbour {
  Tensor index;
  Variable weight;
};

Neighbour neighbour(const Variable& weight, const Tensor& index, int64_t n) {
  const Tensor inside =
      ops::logical_and(ops::greater_equal(index, 0), ops::less(index, static_cast<double>(n)));
  const Tensor moved = ops::clamp(index, 0, static_cast<double>(n - 1));
  return {ops::cast(moved, i64), weight * Variable(ops::cast(inside, weight.dtype()))};
}

std::vector<Neighbour> neighbours(const Variable& at, int64_t n, GridSampleMode mode) {
  if (mode == GridSampleMode::nearest) {
    const Variable one(ops::full(at.shape(), 1, at.dtype(), at.device()));
    return {neighbour(one, ops::round(at.value()), n)};
  }
  const Tensor before = ops::floor(at.value());
  const Variable after = at - Variable(before);
  return {neighbour(1.0 - after, before, n), neighbour(after, ops::add(before, 1), n)};
}

void check_grid(const Variable& x, const Variable& grid) {
  const int dims = x.ndim() - 2;
  bool fits =
      dims >= 2 && dims <= 3 && grid.ndim() == x.ndim() && grid.size(-1) == dims && grid.size(0) == x.size(0);
  for (int i = 2; fits && i < x.ndim(); ++i) fits = x.size(i) > 0;
  require<ShapeError>(
      fits,
      "grid_sample: expected x (N, C, H, W) and a grid (N, h, w, 2), or x (N, C, D, H, W) and a "
      "grid (N, d, h, w, 3), got x ",
      x, " and a grid ", grid);
}

}  // namespace

Variable affine_grid(const Variable& theta, const Shape& size, bool align_corners) {
  const int dims = size.ndim() - 2;
  require<ShapeError>(
      dims >= 2 && dims <= 3 && theta.ndim() == 3 && theta.size(0) == size[0] && theta.size(1) == dims &&
          theta.size(2) == dims + 1,
      "affine_grid: expected theta (N, 2, 3) and a size (N, C, H, W), or (N, 3, 4) and (N, C, D, H, W), "
      "got ",
      theta, " and ", size);
  Shape points(std::span<const int64_t>(size.begin() + 2, size.end()));
  std::vector<Variable> base;  // x, y, (z,) 1, of every point
  for (int i = dims - 1; i >= 0; --i) {
    Shape along = Shape::filled(dims, 1);
    along[i] = points[i];
    base.push_back(
        Variable(coordinates(points[i], align_corners, theta).reshape(along).expand(points).reshape({-1})));
  }
  base.push_back(Variable(ops::full({points.numel()}, 1, theta.dtype(), theta.device())));
  const Variable grid = matmul(stack(base, 1), transpose(theta, 1, 2));  // (N, points, dims)
  Shape shape{size[0]};
  for (const int64_t n : points) shape.push_back(n);
  shape.push_back(dims);
  return reshape(grid, shape);
}

Variable grid_sample(const Variable& x, const Variable& grid, GridSampleMode mode, GridSamplePadding padding,
                     bool align_corners) {
  if (autocast::widens(x, grid)) [[unlikely]]
    return grid_sample(autocast::wide(x), autocast::wide(grid), mode, padding, align_corners);
  check_grid(x, grid);
  const int dims = x.ndim() - 2;
  const int64_t samples = x.size(0), channels = x.size(1);
  int64_t points = 1, pixels = 1;  // of one sample: x and the grid may have none
  for (int i = 1; i <= dims; ++i) points *= grid.size(i), pixels *= x.size(i + 1);
  const Variable list = reshape(grid, {samples, points, dims});
  std::vector<Neighbour> corners;  // of the dimensions so far, the last one varying fastest
  for (int i = 0; i < dims; ++i) {
    const int64_t n = x.size(2 + i);
    const Variable at = position(select(list, 2, dims - 1 - i), n, padding, align_corners);
    std::vector<Neighbour> product;
    for (const Neighbour& side : neighbours(at, n, mode)) {
      if (corners.empty()) product.push_back(side);
      for (const Neighbour& corner : corners)
        product.push_back({ops::add(ops::mul(corner.index, n), side.index), corner.weight * side.weight});
      if (corners.empty()) continue;
    }
    corners = std::move(product);
  }
  const Variable planes = reshape(x, {samples, channels, pixels});
  Variable sum;
  for (const Neighbour& corner : corners) {
    const Tensor index = corner.index.unsqueeze(1).expand({samples, channels, points});
    const Variable term = gather(planes, 2, index) * unsqueeze(corner.weight, 1);
    sum = sum.defined() ? sum + term : term;
  }
  Shape shape{samples, channels};
  for (int i = 1; i <= dims; ++i) shape.push_back(grid.size(i));
  return reshape(cast(sum, x.dtype()), shape);
}

}  // namespace tessera
