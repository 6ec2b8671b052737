#include "tensor/ops/images/pooling.h"

#include "tensor/batched/rules.h"
#include "tensor/cpu/images/max_pooling.h"
#include "tensor/cpu/images/resampling.h"
#include "tensor/cuda/images/pooling.h"
#include "tensor/ops/images/planes.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const Tensor&, const WindowAxes&, const Tensor&, const Tensor&)> max_kernel{
    "max_pool", &kernels::cpu::max_pool, TESSERA_CUDA_KERNEL(kernels::cuda::max_pool),
    batched::one_by_one<&kernels::cpu::max_pool>};
constexpr Kernel<void(const Tensor&, const Tensor&, int64_t, const Tensor&)> max_backward_kernel{
    "max_pool_backward", &kernels::cpu::max_pool_backward,
    TESSERA_CUDA_KERNEL(kernels::cuda::max_pool_backward),
    batched::one_by_one<&kernels::cpu::max_pool_backward>};
constexpr Kernel<void(const Tensor&, const ResamplingAxes&, const Tensor&)> average_kernel{
    "avg_pool", &kernels::cpu::resample, TESSERA_CUDA_KERNEL(kernels::cuda::resample),
    batched::one_by_one<&kernels::cpu::resample>};
constexpr Kernel<void(const Tensor&, const ResamplingAxes&, const Tensor&)> average_backward_kernel{
    "avg_pool_backward", &kernels::cpu::resample_backward,
    TESSERA_CUDA_KERNEL(kernels::cuda::resample_backward),
    batched::one_by_one<&kernels::cpu::resample_backward>};

/// Of a window's sizes, and of the windows along a dimension: what tables and sums of sizes hold.
constexpr int64_t most = int64_t{1} << 30;

/// A window's sizes along one dimension.
struct WindowSizes {
  int64_t extent, kernel, stride, padding, dilation;
  /// From the first element of a window to behind its last.
  int64_t span() const { return dilation * (kernel - 1) + 1; }
};

int64_t window_count(const char* where, const WindowSizes& s, bool ceil_mode) {
  require<ValueError>(s.kernel >= 1 && s.stride >= 1 && s.dilation >= 1, where,
                      ": expected a kernel size, stride and dilation of at least 1, got ", s.kernel, ", ",
                      s.stride, " and ", s.dilation);
  require<ValueError>(std::max({s.kernel, s.stride, s.dilation, s.padding}) <= most, where,
                      ": expected a kernel size, stride, dilation and padding of at most ", most, ", got ",
                      s.kernel, ", ", s.stride, ", ", s.dilation, " and ", s.padding);
  require<ValueError>(s.padding >= 0 && 2 * s.padding <= s.span(), where,
                      ": expected a padding of at least 0 and at most half of the kernel's extent ", s.span(),
                      ", got ", s.padding);
  // With `ceil_mode` a window may end behind the padding, by less than the stride.
  const int64_t free = s.extent + 2 * s.padding - s.span() + (ceil_mode ? s.stride - 1 : 0);
  require<ShapeError>(free >= 0, where, ": expected a window of at most the padded extent ", s.extent,
                      " + 2 * ", s.padding, ", got a kernel of ", s.kernel, " with dilation ", s.dilation,
                      ", which spans ", s.span());
  int64_t count = free / s.stride + 1;
  if (ceil_mode && (count - 1) * s.stride >= s.extent + s.padding) --count;  // it would begin in the padding
  return count;
}

/// The sizes along each of the last dimensions of x, outermost first.
std::vector<WindowSizes> window_sizes(const char* where, const Shape& x, const PoolWindow& window) {
  const int dims = window.dims;
  check_planes(where, x, dims);
  const Shape kernel = entry_per_dim(where, "kernel_size", window.kernel_size, dims);
  const Shape stride = window.stride.empty() ? kernel : entry_per_dim(where, "stride", window.stride, dims);
  const Shape padding = entry_per_dim(where, "padding", window.padding, dims);
  const Shape dilation = entry_per_dim(where, "dilation", window.dilation, dims);
  std::vector<WindowSizes> sizes;
  for (int i = 0; i < dims; ++i)
    sizes.push_back({x[x.ndim() - dims + i], kernel[i], stride[i], padding[i], dilation[i]});
  return sizes;
}

WindowAxis window_axis(const char* where, const WindowSizes& s, bool ceil_mode) {
  WindowAxis axis{s.extent, s.dilation, {}, {}};
  for (int64_t o = 0, count = window_count(where, s, ceil_mode); o < count; ++o) {
    const int64_t first = o * s.stride - s.padding;
    const int64_t skipped = first < 0 ? (-first + s.dilation - 1) / s.dilation : 0;
    axis.begin.push_back(first + skipped * s.dilation);
    axis.end.push_back(std::min(s.extent, first + s.span()));
    require<ValueError>(axis.begin.back() < axis.end.back(), where,
                        ": expected an element of x in every window, but a window of ", s.kernel,
                        " with dilation ", s.dilation, " and padding ", s.padding,
                        " has none in an extent of ", s.extent);
  }
  return axis;
}

/// Averages of windows [begin, end) that lie in x, divided by `counts`.
ResamplingAxis averaging_axis(const WindowAxis& windows, const std::vector<int64_t>& counts) {
  ResamplingAxis axis{windows.extent, {0}, {}, {}};
  for (int64_t o = 0; o < windows.windows(); ++o) {
    for (int64_t i = windows.begin[o]; i < windows.end[o]; ++i) {
      axis.indices.push_back(i);
      axis.weights.push_back(1 / static_cast<double>(counts[o]));
    }
    axis.first.push_back(static_cast<int64_t>(axis.indices.size()));
  }
  return axis;
}

/// `axes` of the last dimensions, after the identity in those that x does not have.
template <class Axis>
std::array<Axis, 3> three(std::vector<Axis> axes) {
  std::array<Axis, 3> all;
  for (size_t i = 0; i < axes.size(); ++i) all[3 - axes.size() + i] = std::move(axes[i]);
  return all;
}

WindowAxes window_axes(const char* where, const Shape& x, const PoolWindow& window) {
  std::vector<WindowAxis> axes;
  for (const WindowSizes& s : window_sizes(where, x, window))
    axes.push_back(window_axis(where, s, window.ceil_mode));
  return three(std::move(axes));
}

ResamplingAxes averaging_axes(const char* where, const Shape& x, const PoolWindow& window,
                              const AverageDivisor& divisor) {
  for (const int64_t dilation : window.dilation)
    require<ValueError>(dilation == 1, where, ": expected a dilation of 1, got ", dilation);
  require<ValueError>(divisor.divisor_override >= 0, where,
                      ": expected a divisor of at least 1, or 0 for none, got ", divisor.divisor_override);
  std::vector<ResamplingAxis> axes;
  for (const WindowSizes& s : window_sizes(where, x, window)) {
    const WindowAxis windows = window_axis(where, s, window.ceil_mode);
    std::vector<int64_t> counts;
    for (int64_t o = 0; o < windows.windows(); ++o) {
      const int64_t first = o * s.stride - s.padding, last = std::min(first + s.kernel, s.extent + s.padding);
      counts.push_back(divisor.divisor_override != 0 ? (axes.empty() ? divisor.divisor_override : 1)
                       : divisor.count_include_pad   ? last - first
                                                     : windows.end[o] - windows.begin[o]);
    }
    axes.push_back(averaging_axis(windows, counts));
  }
  return three(std::move(axes));
}

/// The windows of an adaptive pooling.
WindowAxes adaptive_axes(const char* where, const Shape& x, int dims, const Shape& output_size) {
  check_planes(where, x, dims);
  const Shape sizes = entry_per_dim(where, "output_size", output_size, dims);
  std::vector<WindowAxis> axes;
  for (int i = 0; i < dims; ++i) {
    const int64_t n = x[x.ndim() - dims + i], m = sizes[i] == -1 ? n : sizes[i];
    require<ValueError>(m >= 0, where,
                        ": expected an output size of at least 0, or -1 for the extent of x, got ", m);
    require<ValueError>(m == n || m <= most, where, ": expected an output size of at most ", most, ", got ",
                        m);
    WindowAxis axis{n, 1, {}, {}};
    for (int64_t o = 0; o < m; ++o) {
      axis.begin.push_back(o * n / m);
      axis.end.push_back(((o + 1) * n + m - 1) / m);
    }
    axes.push_back(std::move(axis));
  }
  return three(std::move(axes));
}

ResamplingAxes adaptive_averages(const char* where, const Shape& x, int dims, const Shape& output_size) {
  ResamplingAxes axes;
  const WindowAxes windows = adaptive_axes(where, x, dims, output_size);
  for (size_t i = 0; i < 3; ++i) {
    std::vector<int64_t> counts;
    for (int64_t o = 0; o < windows[i].windows(); ++o)
      counts.push_back(windows[i].end[o] - windows[i].begin[o]);
    axes[i] = averaging_axis(windows[i], counts);
  }
  return axes;
}

int64_t results_of(const WindowAxis& axis) {
  return axis.windows();
}
int64_t results_of(const ResamplingAxis& axis) {
  return axis.results();
}
template <class Axis>
Shape result_shape(const Shape& x, int dims, const std::array<Axis, 3>& axes) {
  Shape last = Shape::filled(dims, 0);
  const size_t first = axes.size() - static_cast<size_t>(dims);
  for (int i = 0; i < dims; ++i) last[i] = results_of(axes[first + static_cast<size_t>(i)]);
  return with_last(x, last);
}

MaxPooled pool(const char* where, const Tensor& x, int dims, const WindowAxes& axes) {
  const Device device = common_device(where, {&x});
  const Shape shape = result_shape(x.shape(), dims, axes);
  MaxPooled out{Tensor::empty(shape, x.dtype(), device), Tensor::empty(shape, i64, device)};
  max_kernel(device, x.contiguous(), axes, out.values, out.indices);
  return out;
}

Tensor average(const char* where, const Tensor& x, int dims, const ResamplingAxes& axes) {
  const Device device = common_device(where, {&x});
  const Tensor y = Tensor::empty(result_shape(x.shape(), dims, axes), x.dtype(), device);
  average_kernel(device, x.contiguous(), axes, y);
  return y;
}

Tensor average_backward(const char* where, const Tensor& dy, const Shape& shape, int dims,
                        const ResamplingAxes& axes) {
  const Device device = common_device(where, {&dy});
  const Shape expected = result_shape(shape, dims, axes);
  require<ShapeError>(dy.shape() == expected, where, ": expected a gradient of shape ", expected, ", got ",
                      dy.shape());
  const Tensor dx = Tensor::empty(shape, dy.dtype(), device);
  average_backward_kernel(device, dy.contiguous(), axes, dx);
  return dx;
}

}  // namespace

MaxPooled max_pool(const Tensor& x, const PoolWindow& window) {
  common_device("max_pool", {&x});
  require_floating("max_pool", x);
  return pool("max_pool", x, window.dims, window_axes("max_pool", x.shape(), window));
}

MaxPooled adaptive_max_pool(const Tensor& x, int dims, const Shape& output_size) {
  const char* where = "adaptive_max_pool";
  common_device(where, {&x});
  require_floating(where, x);
  return pool(where, x, dims, adaptive_axes(where, x.shape(), dims, output_size));
}

Tensor max_pool_backward(const Tensor& dy, const Tensor& indices, const Shape& shape, int dims) {
  const char* where = "max_pool_backward";
  const Device device = common_device(where, {&dy, &indices});
  check_planes(where, shape, dims);
  require<ShapeError>(dy.shape() == indices.shape() && dy.ndim() == shape.ndim(), where,
                      ": expected a gradient of the indices' shape ", indices.shape(), ", got ", dy.shape());
  int64_t planes = 1;
  for (int i = 0; i < shape.ndim() - dims; ++i) planes *= shape[i];
  const Tensor dx = Tensor::empty(shape, dy.dtype(), device);
  max_backward_kernel(device, dy.contiguous(), indices.contiguous(), planes, dx);
  return dx;
}

Tensor avg_pool(const Tensor& x, const PoolWindow& window, const AverageDivisor& divisor) {
  common_device("avg_pool", {&x});
  require_floating("avg_pool", x);
  return average("avg_pool", x, window.dims, averaging_axes("avg_pool", x.shape(), window, divisor));
}

Tensor avg_pool_backward(const Tensor& dy, const Shape& shape, const PoolWindow& window,
                         const AverageDivisor& divisor) {
  return average_backward("avg_pool_backward", dy, shape, window.dims,
                          averaging_axes("avg_pool_backward", shape, window, divisor));
}

Tensor adaptive_avg_pool(const Tensor& x, int dims, const Shape& output_size) {
  const char* where = "adaptive_avg_pool";
  common_device(where, {&x});
  require_floating(where, x);
  return average(where, x, dims, adaptive_averages(where, x.shape(), dims, output_size));
}

Tensor adaptive_avg_pool_backward(const Tensor& dy, const Shape& shape, int dims, const Shape& output_size) {
  const char* where = "adaptive_avg_pool_backward";
  return average_backward(where, dy, shape, dims, adaptive_averages(where, shape, dims, output_size));
}

}  // namespace tessera::ops
