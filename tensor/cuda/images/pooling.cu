// A thread takes one element of the result. What it reads of each dimension stands in tables, which are
// copied to the device in one piece. The gradient of a linear map is the map of the transposed tables, so
// that no two threads add to one element.
#include "tensor/cuda/images/pooling.h"

#include <bit>
#include <vector>

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/indexing/indexing.h"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

using ops::ResamplingAxes;
using ops::ResamplingAxis;

/// Lists of numbers, which become one tensor on the device.
class Tables {
 public:
  /// Returns where the list begins.
  int64_t add(const std::vector<int64_t>& list) {
    const int64_t at = std::ssize(numbers_);
    numbers_.insert(numbers_.end(), list.begin(), list.end());
    return at;
  }
  int64_t add(const std::vector<double>& list) {
    const int64_t at = std::ssize(numbers_);
    for (const double value : list) numbers_.push_back(std::bit_cast<int64_t>(value));
    return at;
  }
  Tensor on(Device device) const { return Tensor::from(numbers_).to(device); }

 private:
  std::vector<int64_t> numbers_;
};

/// Windows along three dimensions.
struct Windows {
  const int64_t* tables;
  int64_t begin[3], end[3], count[3], extent[3], step[3];
};

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    max_kernel(const T* x, Windows windows, int64_t total, T* values, int64_t* indices) {
  using A = Computed<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= total) return;
  int64_t low[3], high[3], rest = i;
  for (int d = 2; d >= 0; --d) {
    const int64_t window = rest % windows.count[d];
    rest /= windows.count[d];
    low[d] = windows.tables[windows.begin[d] + window];
    high[d] = windows.tables[windows.end[d] + window];
  }
  const T* plane = x + rest * windows.extent[0] * windows.extent[1] * windows.extent[2];
  int64_t best = -1;
  A largest = 0;
  for (int64_t z = low[0]; z < high[0]; z += windows.step[0])
    for (int64_t y = low[1]; y < high[1]; y += windows.step[1])
      for (int64_t c = low[2]; c < high[2]; c += windows.step[2]) {
        const int64_t at = (z * windows.extent[1] + y) * windows.extent[2] + c;
        const A value = loaded(plane[at]);
        if (best < 0 || value > largest || value != value) best = at, largest = value;  // the last NaN
      }
  values[i] = stored<T>(largest);
  indices[i] = best;
}

/// Maps along three dimensions: element o reads `indices` with `weights` from first[o] to first[o + 1].
struct Maps {
  const int64_t* tables;
  int64_t first[3], indices[3], weights[3], results[3], extent[3];
  __device__ int64_t begin(int d, int64_t o) const { return tables[first[d] + o]; }
  __device__ int64_t index(int d, int64_t t) const { return tables[indices[d] + t]; }
  __device__ double weight(int d, int64_t t) const { return __longlong_as_double(tables[weights[d] + t]); }
};

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    resample_kernel(const T* x, Maps maps, int64_t total, T* y) {
  using A = Computed<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= total) return;
  int64_t o[3], rest = i;
  for (int d = 2; d >= 0; --d) {
    o[d] = rest % maps.results[d];
    rest /= maps.results[d];
  }
  const T* plane = x + rest * maps.extent[0] * maps.extent[1] * maps.extent[2];
  A value = 0;
  for (int64_t t = maps.begin(2, o[2]); t < maps.begin(2, o[2] + 1); ++t) {
    A column = 0;  // of the rows, as on the CPU
    for (int64_t z = maps.begin(0, o[0]); z < maps.begin(0, o[0] + 1); ++z)
      for (int64_t r = maps.begin(1, o[1]); r < maps.begin(1, o[1] + 1); ++r) {
        const int64_t row = maps.index(0, z) * maps.extent[1] + maps.index(1, r);
        column += static_cast<A>(maps.weight(0, z) * maps.weight(1, r)) *
                  loaded(plane[row * maps.extent[2] + maps.index(2, t)]);
      }
    value += static_cast<A>(maps.weight(2, t)) * column;
  }
  y[i] = stored<T>(value);
}

/// The map from what it gives to what it reads.
ResamplingAxis transposed(const ResamplingAxis& axis) {
  ResamplingAxis result{axis.results(), std::vector<int64_t>(axis.extent + 1, 0), {}, {}};
  for (const int64_t i : axis.indices) ++result.first[i + 1];
  for (int64_t i = 0; i < axis.extent; ++i) result.first[i + 1] += result.first[i];
  result.indices.resize(axis.indices.size());
  result.weights.resize(axis.indices.size());
  std::vector<int64_t> next = result.first;
  for (int64_t o = 0; o < axis.results(); ++o)
    for (int64_t t = axis.first[o]; t < axis.first[o + 1]; ++t) {
      const int64_t at = next[axis.indices[t]]++;
      result.indices[at] = o;
      result.weights[at] = axis.weights[t];
    }
  return result;
}

}  // namespace

void max_pool(const Tensor& x, const ops::WindowAxes& axes, const Tensor& values, const Tensor& indices) {
  if (values.numel() == 0) return;
  Tables lists;
  Windows windows{};
  for (int d = 0; d < 3; ++d) {
    windows.begin[d] = lists.add(axes[d].begin);
    windows.end[d] = lists.add(axes[d].end);
    windows.count[d] = axes[d].windows();
    windows.extent[d] = axes[d].extent;
    windows.step[d] = axes[d].step;
  }
  const Tensor tables = lists.on(x.device());
  windows.tables = static_cast<const int64_t*>(tables.raw_data());
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    launch("max_pool", x.device(), values.numel(), [&](dim3 grid, dim3 block, cudaStream_t stream) {
      max_kernel<T><<<grid, block, 0, stream>>>(static_cast<const T*>(x.raw_data()), windows, values.numel(),
                                                static_cast<T*>(values.raw_data()),
                                                static_cast<int64_t*>(indices.raw_data()));
    });
  });
}

namespace {

/// Indices in planes become those in all planes together.
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    plane_kernel(const int64_t* indices, int64_t count, int64_t windows, int64_t plane, int64_t* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i < count) out[i] = i / windows * plane + indices[i];
}

}  // namespace

void max_pool_backward(const Tensor& dy, const Tensor& indices, int64_t planes, const Tensor& dx) {
  if (dx.numel() == 0) return;
  dx.zero();
  if (dy.numel() == 0) return;
  const Tensor all = Tensor::empty({indices.numel()}, i64, indices.device());
  launch("max_pool_backward", dx.device(), indices.numel(), [&](dim3 grid, dim3 block, cudaStream_t stream) {
    plane_kernel<<<grid, block, 0, stream>>>(static_cast<const int64_t*>(indices.raw_data()), indices.numel(),
                                             indices.numel() / planes, dx.numel() / planes,
                                             static_cast<int64_t*>(all.raw_data()));
  });
  index_add(dy.view({dy.numel()}), 0, all, dx.view({dx.numel()}));
}

void resample(const Tensor& x, const ResamplingAxes& axes, const Tensor& y) {
  if (y.numel() == 0) return;
  Tables lists;
  Maps maps{};
  for (int d = 0; d < 3; ++d) {
    maps.first[d] = lists.add(axes[d].first);
    maps.indices[d] = lists.add(axes[d].indices);
    maps.weights[d] = lists.add(axes[d].weights);
    maps.results[d] = axes[d].results();
    maps.extent[d] = axes[d].extent;
  }
  const Tensor tables = lists.on(x.device());
  maps.tables = static_cast<const int64_t*>(tables.raw_data());
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    launch("resample", x.device(), y.numel(), [&](dim3 grid, dim3 block, cudaStream_t stream) {
      resample_kernel<T><<<grid, block, 0, stream>>>(static_cast<const T*>(x.raw_data()), maps, y.numel(),
                                                     static_cast<T*>(y.raw_data()));
    });
  });
}

void resample_backward(const Tensor& dy, const ResamplingAxes& axes, const Tensor& dx) {
  resample(dy, {transposed(axes[0]), transposed(axes[1]), transposed(axes[2])}, dx);
}

}  // namespace tessera::kernels::cuda
