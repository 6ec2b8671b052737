// A thread takes one element of the result: of a column its element of x, of x its elements of all columns,
// in the order of the kernel's positions.
#include "tensor/cuda/images/windows.h"

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/indexing/index.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

/// What the kernels need of a geometry; values are those of depth, height and width.
struct Windows {
  int64_t channels, taps, positions;
  int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
  int64_t sample_stride, channel_stride, strides[3];  ///< of x

  Windows(const ConvolutionGeometry& g, const Tensor& x)
      : channels(g.in_channels),
        taps(g.taps()),
        positions(g.positions()),
        sample_stride(x.strides()[0]),
        channel_stride(x.strides()[1]),
        strides{} {
    for (int d = 0; d < 3; ++d) {
      in[d] = g.in[d], out[d] = g.out[d], kernel[d] = g.kernel[d];
      stride[d] = g.stride[d], padding[d] = g.padding[d], dilation[d] = g.dilation[d];
    }
    for (int d = 0; d + 2 < x.ndim(); ++d) strides[5 - x.ndim() + d] = x.strides()[d + 2];
  }
};

/// Element i of the contiguous columns (N, channels taps, positions).
template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    unfold_kernel(const T* x, Windows w, int64_t total, T* columns) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= total) return;
  int64_t position = i % w.positions, rest = i / w.positions;
  int64_t tap = rest % w.taps;
  rest /= w.taps;
  int64_t offset = rest / w.channels * w.sample_stride + rest % w.channels * w.channel_stride;
  bool inside = true;
  for (int d = 2; d >= 0; --d) {
    const int64_t at = position % w.out[d] * w.stride[d] - w.padding[d] + tap % w.kernel[d] * w.dilation[d];
    position /= w.out[d];
    tap /= w.kernel[d];
    inside = inside && at >= 0 && at < w.in[d];
    offset += at * w.strides[d];
  }
  columns[i] = inside ? x[offset] : T(0);
}

/// Element i of a contiguous x.
template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    fold_kernel(const T* columns, Windows w, int64_t total, T* x) {
  using A = Computed<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= total) return;
  int64_t at[3], rest = i;
  for (int d = 2; d >= 0; --d) {
    at[d] = rest % w.in[d];
    rest /= w.in[d];
  }
  const T* image = columns + rest * w.taps * w.positions;
  A sum = 0;
  for (int64_t tap = 0; tap < w.taps; ++tap) {
    int64_t left = tap, position = 0, step = 1;
    bool reads = true;
    for (int d = 2; d >= 0; --d) {
      const int64_t shifted = at[d] + w.padding[d] - left % w.kernel[d] * w.dilation[d];
      left /= w.kernel[d];
      const int64_t window = shifted / w.stride[d];
      reads = reads && shifted >= 0 && shifted % w.stride[d] == 0 && window < w.out[d];
      position += window * step;
      step *= w.out[d];
    }
    if (reads) sum += loaded(image[tap * w.positions + position]);
  }
  x[i] = stored<T>(sum);
}

}  // namespace

void unfold(const ConvolutionGeometry& g, const Tensor& x, const Tensor& columns) {
  const Windows windows(g, x);
  by_width(x.dtype(), [&]<class T>(T) {
    launch("unfold", x.device(), columns.numel(), [&](dim3 grid, dim3 block, cudaStream_t stream) {
      unfold_kernel<T><<<grid, block, 0, stream>>>(static_cast<const T*>(x.raw_data()), windows,
                                                   columns.numel(), static_cast<T*>(columns.raw_data()));
    });
  });
}

void fold(const ConvolutionGeometry& g, const Tensor& columns, const Tensor& x) {
  const Windows windows(g, x);
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    launch("fold", x.device(), x.numel(), [&](dim3 grid, dim3 block, cudaStream_t stream) {
      fold_kernel<T><<<grid, block, 0, stream>>>(static_cast<const T*>(columns.raw_data()), windows,
                                                 x.numel(), static_cast<T*>(x.raw_data()));
    });
  });
}

}  // namespace tessera::kernels::cuda
