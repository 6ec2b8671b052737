// Windows as columns, and their sum. A thread computes one element of the result, neighbours neighbouring
// ones: each element is written once, and a sum has its order from the taps of the window.
#include "tensor/cuda/convolution/windows.h"

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/indexing/index.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

/// A dimension of an image under windows. 32 bits: divisions of 64 take four times as long.
struct Extent {
  int32_t in, out, kernel, stride, padding, dilation;
};

struct Windows {
  Extent extents[3];
  int64_t x_strides[5];  ///< of the image, the channel and the three dimensions
  int32_t channels, taps, positions, pixels;
};

/// Three coordinates of a number, the last one the innermost.
struct Coordinates {
  int32_t at[3];
  __device__ Coordinates(int32_t number, int32_t extent1, int32_t extent2)
      : at{number / (extent1 * extent2), number / extent2 % extent1, number % extent2} {}
};

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    unfold_kernel(Windows w, int64_t count, const T* x, T* columns) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= count) return;
  const int64_t row = i / w.positions, image = row / w.taps / w.channels;
  const Coordinates window(static_cast<int32_t>(i % w.positions), w.extents[1].out, w.extents[2].out);
  const Coordinates tap(static_cast<int32_t>(row % w.taps), w.extents[1].kernel, w.extents[2].kernel);
  int64_t offset = image * w.x_strides[0] + row / w.taps % w.channels * w.x_strides[1];
  bool is_inside = true;
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    const Extent& e = w.extents[d];
    const int32_t at = window.at[d] * e.stride + tap.at[d] * e.dilation - e.padding;
    is_inside = is_inside && at >= 0 && at < e.in;
    offset += at * w.x_strides[2 + d];
  }
  columns[i] = is_inside ? x[offset] : T(0);
}

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    fold_kernel(Windows w, int64_t count, const T* columns, T* x) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= count) return;
  const int64_t channel = i / w.pixels;  // of all images
  const Coordinates pixel(static_cast<int32_t>(i % w.pixels), w.extents[1].in, w.extents[2].in);
  Computed<T> sum = 0;
  for (int32_t t = 0; t < w.taps; ++t) {
    const Coordinates tap(t, w.extents[1].kernel, w.extents[2].kernel);
    int32_t position = 0;
    bool is_window = true;
#pragma unroll
    for (int d = 0; d < 3; ++d) {
      const Extent& e = w.extents[d];
      const int32_t from = pixel.at[d] + e.padding - tap.at[d] * e.dilation;
      is_window = is_window && from >= 0 && from % e.stride == 0 && from / e.stride < e.out;
      position = position * e.out + from / e.stride;
    }
    if (is_window) sum += loaded(columns[(channel * w.taps + t) * w.positions + position]);
  }
  x[i] = stored<T>(sum);
}

Windows windows_of(const char* name, const ConvolutionGeometry& g, const Tensor& x) {
  constexpr int64_t most = (int64_t{1} << 31) - 1;
  require<ValueError>(g.positions() <= most && g.in_positions() <= most && g.in_channels * g.taps() <= most,
                      name, " on ", x.device(), ": expected at most ", most, " elements of a channel, got ",
                      g.in_positions(), " and ", g.positions(), " windows");
  Windows w{.channels = static_cast<int32_t>(g.in_channels),
            .taps = static_cast<int32_t>(g.taps()),
            .positions = static_cast<int32_t>(g.positions()),
            .pixels = static_cast<int32_t>(g.in_positions())};
  for (size_t d = 0; d < 3; ++d)
    w.extents[d] = {static_cast<int32_t>(g.in[d]),      static_cast<int32_t>(g.out[d]),
                    static_cast<int32_t>(g.kernel[d]),  static_cast<int32_t>(g.stride[d]),
                    static_cast<int32_t>(g.padding[d]), static_cast<int32_t>(g.dilation[d])};
  w.x_strides[0] = x.strides()[0];
  w.x_strides[1] = x.strides()[1];
  for (int d = 0; d < g.ndim; ++d) w.x_strides[5 - g.ndim + d] = x.strides()[2 + d];
  return w;
}

}  // namespace

void unfold(const ConvolutionGeometry& g, const Tensor& x, const Tensor& columns) {
  const Windows w = windows_of("unfold", g, x);
  const int64_t count = columns.numel();
  by_width(x.dtype(), [&]<class T>(T) {
    launch("unfold", x.device(), count, [&](dim3 grid, dim3 block, cudaStream_t stream) {
      unfold_kernel<T><<<grid, block, 0, stream>>>(w, count, static_cast<const T*>(x.raw_data()),
                                                   static_cast<T*>(columns.raw_data()));
    });
  });
}

void fold(const ConvolutionGeometry& g, const Tensor& columns, const Tensor& x) {
  const Windows w = windows_of("fold", g, x);
  const int64_t count = x.numel();
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    launch("fold", x.device(), count, [&](dim3 grid, dim3 block, cudaStream_t stream) {
      fold_kernel<T><<<grid, block, 0, stream>>>(w, count, static_cast<const T*>(columns.raw_data()),
                                                 static_cast<T*>(x.raw_data()));
    });
  });
}

}  // namespace tessera::kernels::cuda
