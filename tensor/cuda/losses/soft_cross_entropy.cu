// With coefficients q[k] = w[k] ((1 - s) t[k] + s / K) the loss of a row is sum(q (lse - x)), and its
// gradient sum(q) softmax(x) - q. A block takes a row; backward reads logits and targets again.
#include "tensor/cuda/losses/soft_cross_entropy.h"

#include "tensor/cuda/layers/loss_rows.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

template <class T>
struct SoftRows {
  using A = Computed<T>;
  const T *logits, *targets, *weight;
  int64_t count;
  uint32_t classes;
  A kept, spread;  ///< 1 - s and s / K

  /// Coefficient k of the row whose targets are t.
  __device__ A coefficient(const T* t, uint32_t k) const {
    const A target = loaded(t[k]), q = spread != A(0) ? kept * target + spread : target;
    return weight != nullptr ? loaded(weight[k]) * q : q;
  }
};

template <class T>
SoftRows<T> soft_rows(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                      const ops::CrossEntropyOptions& options) {
  using A = Computed<T>;
  constexpr int64_t limit = (int64_t{1} << 31) - 1;
  const int64_t classes = logits.shape().back(), count = logits.numel() / classes;
  require<ValueError>(classes <= limit && count <= limit, "cross_entropy on ", logits.device(),
                      ": expected at most ", limit, " rows and classes, got ", count, " and ", classes);
  return {typed<const T>(logits),
          typed<const T>(targets),
          typed<const T>(weight),
          count,
          static_cast<uint32_t>(classes),
          static_cast<A>(1 - options.label_smoothing),
          static_cast<A>(options.label_smoothing / static_cast<double>(classes))};
}

template <class T>
__global__ void forward_kernel(SoftRows<T> rows, Computed<T>* log_sum_exp, double* losses) {
  using A = Computed<T>;
  __shared__ A scratch[32];
  __shared__ double wide_scratch[32];
  const int64_t row = blockIdx.x;
  const T *x = rows.logits + row * rows.classes, *t = rows.targets + row * rows.classes;
  const LogSumExp<A> lse = log_sum_exp_of(x, rows.classes, scratch);
  A terms = 0;
  for (uint32_t k = threadIdx.x; k < rows.classes; k += blockDim.x)
    terms += rows.coefficient(t, k) * (lse.log_sum - (loaded(x[k]) - lse.largest));
  const double loss = block_reduce(static_cast<double>(terms), wide_scratch, Add());
  if (threadIdx.x != 0) return;
  log_sum_exp[row] = lse.largest;
  log_sum_exp[rows.count + row] = lse.log_sum;
  losses[row] = loss;
}

/// One block: the sum of the losses over `divisor`.
template <class A>
__global__ void __launch_bounds__(loss_sum_threads)
    sum_kernel(const double* losses, int64_t count, double divisor, A* loss) {
  __shared__ double scratch[32];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += loss_sum_threads) sum += losses[i];
  sum = block_reduce(sum, scratch, Add());
  if (threadIdx.x == 0) *loss = static_cast<A>(sum / divisor);
}

template <class A>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    narrow_kernel(const double* losses, int64_t count, A* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i < count) out[i] = static_cast<A>(losses[i]);
}

template <class T>
__global__ void backward_kernel(SoftRows<T> rows, const Computed<T>* dloss, bool single, double divisor,
                                const Computed<T>* log_sum_exp, T* dlogits) {
  using A = Computed<T>;
  __shared__ double scratch[32];
  const int64_t row = blockIdx.x;
  const T *x = rows.logits + row * rows.classes, *t = rows.targets + row * rows.classes;
  T* dx = dlogits + row * rows.classes;
  double total = 0;
  for (uint32_t k = threadIdx.x; k < rows.classes; k += blockDim.x)
    total += static_cast<double>(rows.coefficient(t, k));
  total = block_reduce(total, scratch, Add());
  const double gradient = static_cast<double>(dloss[single ? 0 : row]) / divisor;
  const A scale = static_cast<A>(gradient * total), per_target = static_cast<A>(gradient);
  const A largest = log_sum_exp[row], log_sum = log_sum_exp[rows.count + row];
  for (uint32_t k = threadIdx.x; k < rows.classes; k += blockDim.x)
    dx[k] = stored<T>(scale * elementwise::exp((loaded(x[k]) - largest) - log_sum) -
                      per_target * rows.coefficient(t, k));
}

/// Divides a mean: PyTorch's is over rows, whatever the weights.
double divisor_of(ops::LossReduction reduction, int64_t rows) {
  return reduction == ops::LossReduction::mean ? static_cast<double>(rows) : 1.0;
}

}  // namespace

void soft_cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                        const ops::CrossEntropyOptions& options, const Tensor& log_sum_exp,
                        const Tensor& loss) {
  const Device device = logits.device();
  with_floating(logits.dtype(), [&]<class T>(TypeTag<T>) {
    using A = Computed<T>;
    const SoftRows<T> rows = soft_rows<T>(logits, targets, weight, options);
    const cuda_runtime::DeviceGuard guard(device);
    const cudaStream_t stream = cuda_runtime::current_stream(device);
    const Tensor losses = Tensor::empty({rows.count}, f64, device);
    if (rows.count > 0) {
      forward_kernel<T><<<static_cast<unsigned>(rows.count), threads_for_row(rows.classes), 0, stream>>>(
          rows, typed<A>(log_sum_exp), typed<double>(losses));
      cuda_runtime::check_launch("cross_entropy");
    }
    if (options.reduction == ops::LossReduction::none)
      return launch("cross_entropy", device, rows.count, [&](dim3 grid, dim3 block, cudaStream_t) {
        narrow_kernel<A><<<grid, block, 0, stream>>>(typed<double>(losses), rows.count, typed<A>(loss));
      });
    sum_kernel<A><<<1, loss_sum_threads, 0, stream>>>(
        typed<double>(losses), rows.count, divisor_of(options.reduction, rows.count), typed<A>(loss));
    cuda_runtime::check_launch("cross_entropy");
  });
}

void soft_cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& targets,
                                 const Tensor& weight, const Tensor& log_sum_exp,
                                 const ops::CrossEntropyOptions& options, const Tensor& dlogits) {
  const Device device = logits.device();
  with_floating(logits.dtype(), [&]<class T>(TypeTag<T>) {
    using A = Computed<T>;
    const SoftRows<T> rows = soft_rows<T>(logits, targets, weight, options);
    const cuda_runtime::DeviceGuard guard(device);
    backward_kernel<T><<<static_cast<unsigned>(rows.count), threads_for_row(rows.classes), 0,
                         cuda_runtime::current_stream(device)>>>(
        rows, typed<A>(dloss), options.reduction != ops::LossReduction::none,
        divisor_of(options.reduction, rows.count), typed<A>(log_sum_exp), typed<T>(dlogits));
    cuda_runtime::check_launch("cross_entropy_backward");
  });
}

}  // namespace tessera::kernels::cuda
