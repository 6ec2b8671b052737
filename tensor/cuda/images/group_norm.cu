// Group norm. A block takes one group of one sample: its values lie in a row, which is read from memory once
// forward, and again from the cache. Backward has a row of threads for the sums of each channel, and a block
// for the gradient of each group.
#include "tensor/cuda/images/group_norm.h"

#include <algorithm>
#include <bit>

#include "tensor/cuda/images/channels.cuh"
#include "tensor/cuda/reduction/block_reduce.cuh"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

/// Row n groups + g holds channels g width to (g + 1) width of sample n, of `length` values each.
struct Rows {
  int64_t groups, width, length, count;
  Rows(const Tensor& x, const Tensor& mean)
      : groups(mean.shape()[1]),
        width(x.shape()[1] / groups),
        length(x.numel() / (x.shape()[0] * x.shape()[1])),
        count(mean.numel()) {}
  __host__ __device__ int64_t elements() const { return width * length; }
  __device__ int64_t first_channel(int64_t row) const { return row % groups * width; }
};

template <class T>
__global__ void __launch_bounds__(512)
    forward_kernel(const T* x, Rows rows, double epsilon, ChannelVector<T> weight, ChannelVector<T> bias,
                   Computed<T>* mean, Computed<T>* rstd, T* y) {
  using A = Computed<T>;
  __shared__ double scratch[32];
  const int64_t row = blockIdx.x, n = rows.elements(), begin = row * n;
  A sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += loaded(x[begin + i]);
  const double exact = block_reduce(static_cast<double>(sum), scratch, Add()) / static_cast<double>(n);
  const A center = static_cast<A>(exact);
  A squares = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const A deviation = loaded(x[begin + i]) - center;
    squares += deviation * deviation;
  }
  const double variance = block_reduce(static_cast<double>(squares), scratch, Add()) / static_cast<double>(n);
  const A inverse = static_cast<A>(1 / sqrt(variance + epsilon));
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const int64_t channel = rows.first_channel(row) + i / rows.length;
    y[begin + i] = stored<T>((loaded(x[begin + i]) - center) * (inverse * weight[channel]) + bias[channel]);
  }
  if (threadIdx.x != 0) return;
  mean[row] = center;
  rstd[row] = inverse;
}

/// The sums of dy, and of dy (x - mean) rstd, for each channel of each sample: blockDim.x threads to a
/// channel, blockDim.y channels to a block.
template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    sums_kernel(const T* dy, const T* x, Rows rows, const Computed<T>* mean, const Computed<T>* rstd,
                Computed<T>* along, Computed<T>* sums) {
  using A = Computed<T>;
  __shared__ double values[2][threads_per_block];
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const unsigned at = threadIdx.y * blockDim.x + threadIdx.x;
  const bool exists = channel < rows.count * rows.width;
  const int64_t row = channel / rows.width;
  A sum = 0, by_x = 0;
  if (exists)
    for (int64_t i = threadIdx.x; i < rows.length; i += blockDim.x) {
      const A g = loaded(dy[channel * rows.length + i]);
      sum += g;
      by_x += g * (loaded(x[channel * rows.length + i]) - mean[row]);
    }
  values[0][at] = static_cast<double>(sum);
  values[1][at] = static_cast<double>(by_x);
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      values[0][at] += values[0][at + half];
      values[1][at] += values[1][at + half];
    }
    __syncthreads();
  }
  if (!exists || threadIdx.x != 0) return;
  sums[channel] = static_cast<A>(values[0][at]);
  along[channel] = static_cast<A>(values[1][at] * static_cast<double>(rstd[row]));
}

/// With h = (x - mean) rstd and g = dy weight: dx = rstd (g - mean(g) - h mean(g h)).
template <class T>
__global__ void __launch_bounds__(512)
    input_kernel(const T* dy, const T* x, Rows rows, ChannelVector<T> weight, const Computed<T>* mean,
                 const Computed<T>* rstd, const Computed<T>* along, const Computed<T>* sums, T* dx) {
  using A = Computed<T>;
  __shared__ double scratch[32];
  const int64_t row = blockIdx.x, first = rows.first_channel(row), begin = row * rows.elements();
  double group_sum = 0, group_along = 0;
  for (int64_t c = threadIdx.x; c < rows.width; c += blockDim.x) {
    const auto factor = static_cast<double>(weight[first + c]);
    group_sum += factor * static_cast<double>(sums[row * rows.width + c]);
    group_along += factor * static_cast<double>(along[row * rows.width + c]);
  }
  group_sum = block_reduce(group_sum, scratch, Add());
  group_along = block_reduce(group_along, scratch, Add());
  const A center = mean[row], inverse = rstd[row];
  const double share = static_cast<double>(inverse) / static_cast<double>(rows.elements());
  const A by_deviation = static_cast<A>(share * group_along * static_cast<double>(inverse)),
          each = static_cast<A>(share * group_sum);
  for (int64_t i = threadIdx.x; i < rows.elements(); i += blockDim.x) {
    const A scale = inverse * weight[first + i / rows.length];
    dx[begin + i] =
        stored<T>(loaded(dy[begin + i]) * scale - by_deviation * (loaded(x[begin + i]) - center) - each);
  }
}

}  // namespace

void group_norm(double epsilon, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                const Tensor& rstd, const Tensor& y) {
  const Device device = x.device();
  const Rows rows(x, mean);
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    using A = Computed<T>;
    const cuda_runtime::DeviceGuard guard(device);
    forward_kernel<T><<<static_cast<unsigned>(rows.count), threads_for_row(rows.elements()), 0,
                        cuda_runtime::current_stream(device)>>>(
        typed_or_null<const T>(x), rows, epsilon, ChannelVector<T>(weight, 1), ChannelVector<T>(bias, 0),
        typed_or_null<A>(mean), typed_or_null<A>(rstd), typed_or_null<T>(y));
    cuda_runtime::check_launch("group_norm");
  });
}

void group_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                         const Tensor& rstd, const Tensor& along, const Tensor& sums, const Tensor& dx) {
  const Device device = x.device();
  const Rows rows(x, mean);
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    using A = Computed<T>;
    const cuda_runtime::DeviceGuard guard(device);
    const cudaStream_t stream = cuda_runtime::current_stream(device);
    const unsigned threads =
        std::bit_ceil(static_cast<unsigned>(std::clamp<int64_t>(rows.length / 4, 1, threads_per_block)));
    const dim3 block(threads, threads_per_block / threads);
    const int64_t channels = rows.count * rows.width;
    sums_kernel<T><<<static_cast<unsigned>((channels + block.y - 1) / block.y), block, 0, stream>>>(
        typed_or_null<const T>(dy), typed_or_null<const T>(x), rows, typed_or_null<const A>(mean),
        typed_or_null<const A>(rstd), typed_or_null<A>(along), typed_or_null<A>(sums));
    cuda_runtime::check_launch("group_norm_backward");
    if (!dx.defined()) return;
    input_kernel<T><<<static_cast<unsigned>(rows.count), threads_for_row(rows.elements()), 0, stream>>>(
        typed_or_null<const T>(dy), typed_or_null<const T>(x), rows, ChannelVector<T>(weight, 1),
        typed_or_null<const A>(mean), typed_or_null<const A>(rstd), typed_or_null<const A>(along),
        typed_or_null<const A>(sums), typed_or_null<T>(dx));
    cuda_runtime::check_launch("group_norm_backward");
  });
}

}  // namespace tessera::kernels::cuda
