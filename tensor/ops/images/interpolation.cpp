#include "tensor/ops/images/interpolation.h"

#include <algorithm>
#include <cmath>

#include "tensor/batched/rules.h"
#include "tensor/cpu/images/resampling.h"
#include "tensor/cuda/images/pooling.h"
#include "tensor/ops/images/planes.h"

namespace tessera {

const char* name_of(InterpolationMode mode) {
  switch (mode) {
    case InterpolationMode::nearest:
      return "nearest";
    case InterpolationMode::nearest_exact:
      return "nearest-exact";
    case InterpolationMode::linear:
      return "linear";
    case InterpolationMode::bilinear:
      return "bilinear";
    case InterpolationMode::trilinear:
      return "trilinear";
    case InterpolationMode::bicubic:
      return "bicubic";
    case InterpolationMode::area:
      return "area";
  }
  return "?";
}

namespace ops {
namespace {

constexpr Kernel<void(const Tensor&, const ResamplingAxes&, const Tensor&)> kernel{
    "interpolate", &kernels::cpu::resample, TESSERA_CUDA_KERNEL(kernels::cuda::resample),
    batched::one_by_one<&kernels::cpu::resample>};
constexpr Kernel<void(const Tensor&, const ResamplingAxes&, const Tensor&)> backward_kernel{
    "interpolate_backward", &kernels::cpu::resample_backward,
    TESSERA_CUDA_KERNEL(kernels::cuda::resample_backward),
    batched::one_by_one<&kernels::cpu::resample_backward>};

/// Appends the elements of one result to `axis`.
class AxisBuilder {
 public:
  explicit AxisBuilder(int64_t extent) : axis_{extent, {0}, {}, {}} {}
  /// Reads element `index`, moved into x where it lies outside.
  void read(int64_t index, double weight) {
    axis_.indices.push_back(std::clamp<int64_t>(index, 0, axis_.extent - 1));
    axis_.weights.push_back(weight);
  }
  void end_result() { axis_.first.push_back(static_cast<int64_t>(axis_.indices.size())); }
  ResamplingAxis take() { return std::move(axis_); }

 private:
  ResamplingAxis axis_;
};

/// Keys' cubic kernel at distance |t| with a = -3/4 (Keys 1981).
double cubic_weight(double t) {
  constexpr double a = -0.75;
  t = std::abs(t);
  return t <= 1 ? ((a + 2) * t - (a + 3)) * t * t + 1 : ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
}

/// n elements of x to m of the result, `step` elements of x apart.
ResamplingAxis axis_of(InterpolationMode mode, int64_t n, int64_t m, double step, bool align_corners) {
  AxisBuilder axis(n);
  if (align_corners) step = m > 1 ? static_cast<double>(n - 1) / static_cast<double>(m - 1) : 0;
  for (int64_t i = 0; i < m; ++i, axis.end_result()) {
    const double position = static_cast<double>(i), centred = (position + 0.5) * step - 0.5;
    const double at = align_corners ? position * step : centred;
    switch (mode) {
      case InterpolationMode::nearest:
        axis.read(static_cast<int64_t>(std::floor(position * step)), 1);
        break;
      case InterpolationMode::nearest_exact:
        axis.read(static_cast<int64_t>(std::floor((position + 0.5) * step)), 1);
        break;
      case InterpolationMode::area: {
        const int64_t begin = i * n / m, end = ((i + 1) * n + m - 1) / m;
        for (int64_t k = begin; k < end; ++k) axis.read(k, 1 / static_cast<double>(end - begin));
        break;
      }
      case InterpolationMode::bicubic: {
        const auto before = static_cast<int64_t>(std::floor(at));
        for (int64_t k = before - 1; k <= before + 2; ++k)
          axis.read(k, cubic_weight(at - static_cast<double>(k)));
        break;
      }
      default: {
        const double clamped = std::max(at, 0.0);
        const auto before = std::min(static_cast<int64_t>(clamped), n - 1);
        const double after = std::clamp(clamped - static_cast<double>(before), 0.0, 1.0);
        axis.read(before, 1 - after);
        axis.read(before + 1, after);
      }
    }
  }
  return axis.take();
}

void check_mode(const char* where, const InterpolateOptions& options, int dims) {
  using enum InterpolationMode;
  const InterpolationMode mode = options.mode;
  const int of_mode = mode == linear                        ? 1
                      : mode == bilinear || mode == bicubic ? 2
                      : mode == trilinear                   ? 3
                                                            : dims;
  require<ValueError>(of_mode == dims, where, ": expected planes of ", of_mode, " dimensions for the mode ",
                      name_of(mode), ", got ", dims);
  require<ValueError>(!options.align_corners || (mode != nearest && mode != nearest_exact && mode != area),
                      where, ": expected align_corners with a linear or cubic mode only, got ",
                      name_of(mode));
  require<ValueError>(options.size.empty() != options.scale_factor.empty(), where,
                      ": expected either a size or a scale_factor");
}

/// Of a result, each way. A table has as many entries: a mistake in a size shall not take the machine's
/// memory.
constexpr int64_t most_extent = int64_t{1} << 30;

/// The result's extents and the distances of its elements in x.
struct Grid {
  Shape size;
  std::vector<double> steps;
};

Grid grid_of(const char* where, const Shape& x, int dims, const InterpolateOptions& options) {
  Grid grid;
  if (!options.size.empty()) grid.size = entry_per_dim(where, "size", options.size, dims);
  std::vector<double> factors = options.scale_factor;
  if (factors.size() == 1) factors.assign(static_cast<size_t>(dims), factors[0]);
  require<ShapeError>(!options.size.empty() || std::ssize(factors) == dims, where,
                      ": expected a scale_factor of 1 or ", dims, " entries, got ", std::ssize(factors));
  for (int i = 0; i < dims; ++i) {
    const int64_t n = x[x.ndim() - dims + i];
    const double factor = options.size.empty() ? factors[static_cast<size_t>(i)] : 1;
    require<ValueError>(factor > 0 && static_cast<double>(n) * factor <= most_extent, where,
                        ": expected a scale_factor above 0, with a result of at most ", most_extent,
                        " elements each way, got ", factor, " for ", n);
    if (options.size.empty())
      grid.size.push_back(static_cast<int64_t>(std::floor(static_cast<double>(n) * factor)));
    require<ValueError>(grid.size[i] >= 1 && grid.size[i] <= most_extent, where,
                        ": expected a result of 1 to ", most_extent, " elements each way, got ", grid.size);
    const bool by_factor = options.size.empty() && !options.recompute_scale_factor;
    grid.steps.push_back(by_factor ? 1 / factor : static_cast<double>(n) / static_cast<double>(grid.size[i]));
  }
  return grid;
}

int check_input(const char* where, const Shape& x) {
  require<ShapeError>(x.ndim() >= 3 && x.ndim() <= 5, where,
                      ": expected x (N, C, ...) of 3 to 5 dimensions, got ", x);
  const int dims = x.ndim() - 2;
  check_planes(where, x, dims);
  return dims;
}

/// A map from x: its grid, and the shape of its result.
struct Map {
  int dims;
  Grid grid;
  Shape result;
};

Map map_of(const char* where, const Shape& x, const InterpolateOptions& options) {
  const int dims = check_input(where, x);
  check_mode(where, options, dims);
  Grid grid = grid_of(where, x, dims, options);
  const Shape result = with_last(x, grid.size);
  return {dims, std::move(grid), result};
}

/// The tables of a map. Made after its result: the allocation says where a size is too large.
ResamplingAxes axes_of(const Map& map, const Shape& x, const InterpolateOptions& options) {
  ResamplingAxes axes;
  for (int i = 0; i < map.dims; ++i)
    axes[static_cast<size_t>(3 - map.dims + i)] =
        axis_of(options.mode, x[2 + i], map.grid.size[i], map.grid.steps[static_cast<size_t>(i)],
                options.align_corners);
  return axes;
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
  const Device device = common_device("interpolate", {&x});
  require_floating("interpolate", x);
  const Map map = map_of("interpolate", x.shape(), options);
  const Tensor y = Tensor::empty(map.result, x.dtype(), device);
  kernel(device, x.contiguous(), axes_of(map, x.shape(), options), y);
  return y;
}

Tensor interpolate_backward(const Tensor& dy, const Shape& shape, const InterpolateOptions& options) {
  const char* where = "interpolate_backward";
  const Device device = common_device(where, {&dy});
  const Map map = map_of(where, shape, options);
  require<ShapeError>(dy.shape() == map.result, where, ": expected a gradient of shape ", map.result,
                      ", got ", dy.shape());
  const Tensor dx = Tensor::empty(shape, dy.dtype(), device);
  backward_kernel(device, dy.contiguous(), axes_of(map, shape, options), dx);
  return dx;
}

}  // namespace ops
}  // namespace tessera
