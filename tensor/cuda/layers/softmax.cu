// A block takes a row. It reads the row twice: for the statistics, and for the results; the second time from
// the cache.
#include "tensor/cuda/layers/softmax.h"

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/reduction/block_reduce.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/log.h"
#include "tensor/strided_loop.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

/// The rows of N tensors of one shape along a dimension.
template <int N>
struct Rows {
  int ndim;
  uint32_t count;    ///< of rows
  uint32_t length;   ///< of a row
  int64_t steps[N];  ///< between neighbours of a row
  uint32_t extents[Shape::max_ndim];
  int64_t strides[N][Shape::max_ndim];

  __device__ int64_t offset(int k, uint32_t row) const {
    int64_t offset = 0;
    for (int d = ndim - 1; d > 0; --d) {
      offset += (row % extents[d]) * strides[k][d];
      row /= extents[d];
    }
    return offset + row * strides[k][0];
  }
};

template <int N>
Rows<N> rows_along(const char* name, int64_t dim, const std::array<const Tensor*, N>& tensors) {
  Shape outer = tensors[0]->shape();
  const int64_t length = outer[dim];
  outer[dim] = 1;
  std::array<const Strides*, N> strides;
  for (int k = 0; k < N; ++k) strides[k] = &tensors[k]->strides();
  const StridedLoop<N> loop(outer, strides);
  constexpr int64_t limit = (int64_t{1} << 31) - 1;
  require<ValueError>(outer.numel() <= limit && length <= limit, name, ": expected at most ", limit,
                      " rows and elements of each, got ", outer.numel(), " and ", length);
  Rows<N> rows{};
  rows.ndim = loop.ndim;
  rows.count = static_cast<uint32_t>(outer.numel());
  rows.length = static_cast<uint32_t>(length);
  for (int k = 0; k < N; ++k) {
    rows.steps[k] = tensors[k]->strides()[dim];
    for (int d = 0; d < loop.ndim; ++d) rows.strides[k][d] = loop.strides[k][d];
  }
  for (int d = 0; d < loop.ndim; ++d) rows.extents[d] = static_cast<uint32_t>(loop.extents[d]);
  return rows;
}

enum class Kind : uint8_t { softmax, log_softmax };

template <Kind kind, class T>
__global__ void forward_kernel(Rows<2> rows, const T* x, T* y) {
  using A = Computed<T>;
  __shared__ A scratch[32];
  const T* from = x + rows.offset(0, blockIdx.x);
  T* to = y + rows.offset(1, blockIdx.x);
  A largest = -elementwise::Floating<A>::infinity;
  for (uint32_t i = threadIdx.x; i < rows.length; i += blockDim.x)
    largest = LargerOrAny()(largest, loaded(from[i * rows.steps[0]]));
  largest = block_reduce(largest, scratch, LargerOrAny());
  A sum = 0;
  for (uint32_t i = threadIdx.x; i < rows.length; i += blockDim.x)
    sum += elementwise::exp(loaded(from[i * rows.steps[0]]) - largest);
  sum = block_reduce(sum, scratch, Add());
  const A scale = A(1) / sum, log_sum = kind == Kind::log_softmax ? elementwise::log(sum) : A(0);
  for (uint32_t i = threadIdx.x; i < rows.length; i += blockDim.x) {
    const A shifted = loaded(from[i * rows.steps[0]]) - largest;
    to[i * rows.steps[1]] =
        stored<T>(kind == Kind::softmax ? elementwise::exp(shifted) * scale : shifted - log_sum);
  }
}

template <Kind kind, class T>
__global__ void backward_kernel(Rows<3> rows, const T* y, const T* dy, T* dx) {
  using A = Computed<T>;
  __shared__ A scratch[32];
  const T* value = y + rows.offset(0, blockIdx.x);
  const T* gradient = dy + rows.offset(1, blockIdx.x);
  T* to = dx + rows.offset(2, blockIdx.x);
  A sum = 0;
  for (uint32_t i = threadIdx.x; i < rows.length; i += blockDim.x) {
    const A g = loaded(gradient[i * rows.steps[1]]);
    sum += kind == Kind::softmax ? loaded(value[i * rows.steps[0]]) * g : g;
  }
  sum = block_reduce(sum, scratch, Add());
  for (uint32_t i = threadIdx.x; i < rows.length; i += blockDim.x) {
    const A v = loaded(value[i * rows.steps[0]]), g = loaded(gradient[i * rows.steps[1]]);
    to[i * rows.steps[2]] = stored<T>(kind == Kind::softmax ? v * (g - sum) : g - elementwise::exp(v) * sum);
  }
}

template <Kind kind>
void forward(const char* name, const Tensor& x, const Tensor& y, int64_t dim) {
  if (x.numel() == 0) return;
  const Rows<2> rows = rows_along<2>(name, dim, {&x, &y});
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    const cuda_runtime::DeviceGuard guard(x.device());
    forward_kernel<kind, T>
        <<<rows.count, threads_for_row(rows.length), 0, cuda_runtime::current_stream(x.device())>>>(
            rows, static_cast<const T*>(x.raw_data()), static_cast<T*>(y.raw_data()));
    cuda_runtime::check_launch(name);
  });
}

template <Kind kind>
void backward(const char* name, const Tensor& y, const Tensor& dy, const Tensor& dx, int64_t dim) {
  if (y.numel() == 0) return;
  const Rows<3> rows = rows_along<3>(name, dim, {&y, &dy, &dx});
  with_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    const cuda_runtime::DeviceGuard guard(y.device());
    backward_kernel<kind, T>
        <<<rows.count, threads_for_row(rows.length), 0, cuda_runtime::current_stream(y.device())>>>(
            rows, static_cast<const T*>(y.raw_data()), static_cast<const T*>(dy.raw_data()),
            static_cast<T*>(dx.raw_data()));
    cuda_runtime::check_launch(name);
  });
}

}  // namespace

void softmax(const Tensor& x, const Tensor& y, int64_t dim) {
  forward<Kind::softmax>("softmax", x, y, dim);
}
void log_softmax(const Tensor& x, const Tensor& y, int64_t dim) {
  forward<Kind::log_softmax>("log_softmax", x, y, dim);
}
void softmax_backward(const Tensor& y, const Tensor& dy, const Tensor& dx, int64_t dim) {
  backward<Kind::softmax>("softmax_backward", y, dy, dx, dim);
}
void log_softmax_backward(const Tensor& y, const Tensor& dy, const Tensor& dx, int64_t dim) {
  backward<Kind::log_softmax>("log_softmax_backward", y, dy, dx, dim);
}

}  // namespace tessera::kernels::cuda
