// Layer norm and RMS norm. A block takes a row: x is read once from memory, and again from the cache. The
// variance is computed from the deviations, which keeps its precision when the mean is large. The gradients
// of weight and bias are added up within fixed groups of rows, a thread per column, and then over the groups
// in order.
#include "tensor/cuda/layers/normalization.h"

#include <algorithm>

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/layers/dropout.cuh"
#include "tensor/cuda/reduction/block_reduce.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/elementwise/arithmetic.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

template <class T>
T* typed(const Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.raw_data()) : nullptr;
}

/// (x - mean) rstd weight + bias, with what is there.
template <class T, class A>
__device__ T scaled(A x, A mean, A rstd, const T* weight, const T* bias, uint32_t i) {
  A y = (x - mean) * rstd;
  if (weight != nullptr) y = y * loaded(weight[i]);
  if (bias != nullptr) y = y + loaded(bias[i]);
  return stored<T>(y);
}

/// The operands of the forward kernels; null where there is none.
template <class T>
struct Forward {
  using A = Computed<T>;
  uint32_t n;
  const T *x, *delta, *weight, *bias;
  A eps;
  T *sum, *y;
  A *mean, *rstd;
};

/// Calls `body(i, dropper)` for this thread's elements of a row that begins at `begin`, in groups of the four
/// that share random words, where groups and rows agree.
template <class Body>
__device__ void for_each_dropped(const DropoutArgument& mask, int64_t begin, uint32_t n, const Body& body) {
  for (uint32_t first = 4 * threadIdx.x; first < n; first += 4 * blockDim.x) {
    Dropper dropper(mask, begin + first);
    for (uint32_t i = first; i < n && i < first + 4; ++i) body(i, dropper);
  }
}

template <class T>
__global__ void forward_kernel(Forward<T> call, const __grid_constant__ DropoutArgument mask, bool drops) {
  using A = Computed<T>;
  __shared__ A scratch[32];
  const size_t row = blockIdx.x, begin = row * call.n;
  const A count = static_cast<A>(call.n);
  const T* x = call.x + begin;
  if (call.delta != nullptr) {  // rounded as stored, so that backward normalizes the same values
    T* sum = call.sum + begin;
    if (drops)
      for_each_dropped(mask, static_cast<int64_t>(begin), call.n, [&](uint32_t i, Dropper& dropper) {
        sum[i] = stored<T>(loaded(x[i]) + dropper(loaded(call.delta[begin + i])));
      });
    else
      for (uint32_t i = threadIdx.x; i < call.n; i += blockDim.x)
        sum[i] = stored<T>(loaded(x[i]) + loaded(call.delta[begin + i]));
    __syncthreads();
    x = sum;
  }
  A center = 0;
  if (call.mean != nullptr) {
    for (uint32_t i = threadIdx.x; i < call.n; i += blockDim.x) center += loaded(x[i]);
    center = block_reduce(center, scratch, Add()) / count;
  }
  A squares = 0;
  for (uint32_t i = threadIdx.x; i < call.n; i += blockDim.x) {
    const A deviation = loaded(x[i]) - center;
    squares += deviation * deviation;
  }
  squares = block_reduce(squares, scratch, Add());
  const A rstd = A(1) / elementwise::sqrt(squares / count + call.eps);
  for (uint32_t i = threadIdx.x; i < call.n; i += blockDim.x)
    call.y[begin + i] = scaled<T>(loaded(x[i]), center, rstd, call.weight, call.bias, i);
  if (threadIdx.x == 0) {
    if (call.mean != nullptr) call.mean[row] = center;
    call.rstd[row] = rstd;
  }
}

template <class T>
__global__ void recompute_kernel(Forward<T> call) {
  using A = Computed<T>;
  const size_t row = blockIdx.x, begin = row * call.n;
  const A mean = call.mean != nullptr ? call.mean[row] : A(0), rstd = call.rstd[row];
  for (uint32_t i = threadIdx.x; i < call.n; i += blockDim.x)
    call.y[begin + i] = scaled<T>(loaded(call.x[begin + i]), mean, rstd, call.weight, call.bias, i);
}

/// The operands of the backward kernels.
template <class T>
struct Backward {
  using A = Computed<T>;
  uint32_t n;
  int64_t rows;
  const T *dy, *dsum, *x, *weight;
  const A *mean, *rstd;
  T *dx, *ddelta;
};

/// With h = (x - mean) rstd and g = dy weight: dx = rstd (g - mean(g) - h mean(g h)). With a mask the
/// gradient of delta is dropout(dx).
template <class T>
__global__ void input_kernel(Backward<T> call, const __grid_constant__ DropoutArgument mask) {
  using A = Computed<T>;
  __shared__ A scratch[32];
  const size_t row = blockIdx.x, begin = row * call.n;
  const A mean = call.mean != nullptr ? call.mean[row] : A(0), rstd = call.rstd[row];
  const A inverse_n = A(1) / static_cast<A>(call.n);
  const auto g = [&](uint32_t i) {
    const A dy = loaded(call.dy[begin + i]);
    return call.weight != nullptr ? dy * loaded(call.weight[i]) : dy;
  };
  A sum_g = 0, sum_gh = 0;
  for (uint32_t i = threadIdx.x; i < call.n; i += blockDim.x) {
    const A value = g(i);
    sum_g += value;
    sum_gh += value * ((loaded(call.x[begin + i]) - mean) * rstd);
  }
  const A mean_g = call.mean != nullptr ? block_reduce(sum_g, scratch, Add()) * inverse_n : A(0);
  const A mean_gh = block_reduce(sum_gh, scratch, Add()) * inverse_n;
  const auto dx = [&](uint32_t i) {
    const A h = (loaded(call.x[begin + i]) - mean) * rstd;
    const A value = rstd * ((g(i) - mean_g) - h * mean_gh);
    return call.dsum != nullptr ? value + loaded(call.dsum[begin + i]) : value;
  };
  if (call.ddelta == nullptr) {
    for (uint32_t i = threadIdx.x; i < call.n; i += blockDim.x) call.dx[begin + i] = stored<T>(dx(i));
    return;
  }
  __syncthreads();  // dx may be x, and other threads have read these elements
  for_each_dropped(mask, static_cast<int64_t>(begin), call.n, [&](uint32_t i, Dropper& dropper) {
    const A gradient = dx(i);
    if (call.dx != nullptr) call.dx[begin + i] = stored<T>(gradient);
    call.ddelta[begin + i] = stored<T>(dropper(gradient));
  });
}

/// A thread per column; blockIdx.y is the group of rows. Writes the group's sums, in f64, to (groups, 2, n).
template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    parameter_kernel(Backward<T> call, int64_t rows_per_group, double* partials) {
  using A = Computed<T>;
  const uint32_t i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i >= call.n) return;
  const int64_t first = blockIdx.y * rows_per_group, last = min(call.rows, first + rows_per_group);
  A dweight = 0, dbias = 0;
  for (int64_t row = first; row < last; ++row) {
    const A dy = loaded(call.dy[row * call.n + i]);
    const A mean = call.mean != nullptr ? call.mean[row] : A(0);
    dweight += dy * ((loaded(call.x[row * call.n + i]) - mean) * call.rstd[row]);
    dbias += dy;
  }
  double* group = partials + static_cast<size_t>(blockIdx.y) * 2 * call.n;
  group[i] = static_cast<double>(dweight);
  group[call.n + i] = static_cast<double>(dbias);
}

template <class A>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    group_kernel(const double* partials, int64_t groups, uint32_t n, A* dweight, A* dbias) {
  const uint32_t i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i >= n) return;
  double weight = 0, bias = 0;
  for (int64_t g = 0; g < groups; ++g) {
    weight += partials[g * 2 * n + i];
    bias += partials[g * 2 * n + n + i];
  }
  if (dweight != nullptr) dweight[i] = static_cast<A>(weight);
  if (dbias != nullptr) dbias[i] = static_cast<A>(bias);
}

uint32_t row_length(const char* name, const Tensor& x, const Tensor& rstd) {
  constexpr int64_t limit = (int64_t{1} << 31) - 1;
  const int64_t rows = rstd.numel(), n = x.numel() / rows;
  require<ValueError>(rows <= limit && n <= limit, name, ": expected at most ", limit,
                      " rows and elements of each, got ", rows, " and ", n);
  return static_cast<uint32_t>(n);
}

}  // namespace

void normalization(const ops::NormalizationCall& call, const ops::Normalized& out) {
  const Device device = call.x.device();
  if (call.x.numel() == 0) return;
  const uint32_t n = row_length("layer_norm", call.x, out.rstd);
  const DropoutMaskOnDevice mask(call.mask, device);
  with_floating(call.x.dtype(), [&]<class T>(TypeTag<T>) {
    using A = Computed<T>;
    const cuda_runtime::DeviceGuard guard(device);
    forward_kernel<T><<<static_cast<unsigned>(out.rstd.numel()), threads_for_row(n), 0,
                        cuda_runtime::current_stream(device)>>>(
        {n, typed<T>(call.x), typed<T>(call.delta), typed<T>(call.weight), typed<T>(call.bias),
         static_cast<A>(call.eps), typed<T>(out.sum), typed<T>(out.y), typed<A>(out.mean),
         typed<A>(out.rstd)},
        mask.argument(), call.mask != nullptr);
    cuda_runtime::check_launch("layer_norm");
  });
}

void recompute_normalized(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                          const Tensor& rstd, const Tensor& y) {
  const Device device = x.device();
  if (x.numel() == 0) return;
  const uint32_t n = row_length("layer_norm", x, rstd);
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    using A = Computed<T>;
    const cuda_runtime::DeviceGuard guard(device);
    recompute_kernel<T><<<static_cast<unsigned>(rstd.numel()), threads_for_row(n), 0,
                          cuda_runtime::current_stream(device)>>>({n, typed<T>(x), nullptr, typed<T>(weight),
                                                                   typed<T>(bias), A(0), nullptr, typed<T>(y),
                                                                   typed<A>(mean), typed<A>(rstd)});
    cuda_runtime::check_launch("layer_norm");
  });
}

void normalization_backward(const ops::NormalizationBackwardCall& call,
                            const ops::NormalizationGradients& out) {
  const Device device = call.x.device();
  const int64_t rows = call.rstd.numel();
  if (rows == 0 || call.x.numel() == 0) {
    for (const Tensor& gradient : {out.weight, out.bias})
      if (gradient.defined()) gradient.zero();
    return;
  }
  const uint32_t n = row_length("normalization_backward", call.x, call.rstd);
  const DropoutMaskOnDevice mask(call.mask, device);
  with_floating(call.x.dtype(), [&]<class T>(TypeTag<T>) {
    using A = Computed<T>;
    const cuda_runtime::DeviceGuard guard(device);
    const cudaStream_t stream = cuda_runtime::current_stream(device);
    const Backward<T> operands = {n,
                                  rows,
                                  typed<T>(call.dy),
                                  typed<T>(call.dsum),
                                  typed<T>(call.x),
                                  typed<T>(call.weight),
                                  typed<A>(call.mean),
                                  typed<A>(call.rstd),
                                  typed<T>(out.x),
                                  call.mask != nullptr ? typed<T>(out.delta) : nullptr};
    // dx may take the memory of x, so it comes last.
    if (out.weight.defined() || out.bias.defined()) {
      const int64_t rows_per_group = std::max<int64_t>(64, (rows + 1023) / 1024);
      const int64_t groups = (rows + rows_per_group - 1) / rows_per_group;
      const Tensor partials = Tensor::empty({groups, 2, int64_t{n}}, f64, device);
      const unsigned columns = (n + threads_per_block - 1) / threads_per_block;
      parameter_kernel<T><<<dim3(columns, static_cast<unsigned>(groups)), threads_per_block, 0, stream>>>(
          operands, rows_per_group, typed<double>(partials));
      cuda_runtime::check_launch("normalization_backward");
      group_kernel<A><<<columns, threads_per_block, 0, stream>>>(typed<double>(partials), groups, n,
                                                                 typed<A>(out.weight), typed<A>(out.bias));
      cuda_runtime::check_launch("normalization_backward");
    }
    if (out.x.defined() || operands.ddelta != nullptr) {
      input_kernel<T>
          <<<static_cast<unsigned>(rows), threads_for_row(n), 0, stream>>>(operands, mask.argument());
      cuda_runtime::check_launch("normalization_backward");
    }
  });
}

}  // namespace tessera::kernels::cuda
