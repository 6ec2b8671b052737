// Cross entropy from logits. A block takes a row: forward keeps two values of it, the largest logit and
// log(sum(exp(x - largest))); backward reads the row again and writes its gradient. The losses of the rows,
// and the weights of those that count, are added up in order by one block, in f64.
#include "tensor/cuda/layers/loss.h"

#include "tensor/cuda/layers/loss_rows.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

/// The two saved values, and the loss in f64.
template <class T>
__global__ void forward_kernel(LossRows<T> rows, Computed<T>* log_sum_exp, double* losses) {
  using A = Computed<T>;
  __shared__ A scratch[32];
  __shared__ double wide_scratch[32];
  const int64_t row = blockIdx.x;
  const LogSumExp<A> lse = log_sum_exp_of(rows.row(row), rows.targets.classes, scratch);
  const double loss = row_loss(rows, row, lse, wide_scratch);
  if (threadIdx.x != 0) return;
  log_sum_exp[row] = lse.largest;
  log_sum_exp[rows.targets.count + row] = lse.log_sum;
  losses[row] = loss;
}

/// One block: the divisor, and the loss of a mean or a sum.
template <class T>
__global__ void __launch_bounds__(loss_sum_threads)
    sum_kernel(LossRows<T> rows, const double* losses, bool is_mean, double* divisor, Computed<T>* loss) {
  __shared__ double scratch[32];
  double weights = 0, sum = 0;
  for (int64_t i = threadIdx.x; i < rows.targets.count; i += loss_sum_threads) {
    if (rows.targets.counts(i)) weights += rows.weight_of(rows.targets[i]);
    sum += losses[i];
  }
  weights = block_reduce(weights, scratch, Add());
  sum = block_reduce(sum, scratch, Add());
  if (threadIdx.x != 0) return;
  *divisor = weights;
  if (loss != nullptr) *loss = static_cast<Computed<T>>(is_mean ? sum / weights : sum);
}

template <class A>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    narrow_kernel(const double* losses, int64_t count, A* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i < count) out[i] = static_cast<A>(losses[i]);
}

template <class T>
__global__ void backward_kernel(LossRows<T> rows, const Computed<T>* dloss, bool single,
                                const double* divisor, const Computed<T>* log_sum_exp, T* dlogits) {
  __shared__ double scratch[32];
  const int64_t row = blockIdx.x;
  const double gradient =
      static_cast<double>(dloss[single ? 0 : row]) / (divisor != nullptr ? *divisor : 1.0);
  row_gradient(rows, row, {log_sum_exp[row], log_sum_exp[rows.targets.count + row]}, gradient, scratch,
               dlogits + row * rows.targets.classes);
}

}  // namespace

void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                   const ops::CrossEntropyOptions& options, const ops::CrossEntropy& out) {
  const Device device = logits.device();
  with_floating(logits.dtype(), [&]<class T>(TypeTag<T>) {
    using A = Computed<T>;
    const LossRows<T> rows = loss_rows<T>(logits, targets, weight, options);
    const int64_t count = rows.targets.count;
    const cuda_runtime::DeviceGuard guard(device);
    const cudaStream_t stream = cuda_runtime::current_stream(device);
    const Tensor losses = Tensor::empty({count}, f64, device);
    if (count > 0) {
      check_targets(rows.targets, targets.shape(), device);
      forward_kernel<T><<<static_cast<unsigned>(count), threads_for_row(rows.targets.classes), 0, stream>>>(
          rows, typed<A>(out.log_sum_exp), typed<double>(losses));
      cuda_runtime::check_launch("cross_entropy");
    }
    const bool is_single = options.reduction != ops::LossReduction::none;
    sum_kernel<T><<<1, loss_sum_threads, 0, stream>>>(
        rows, typed<double>(losses), options.reduction == ops::LossReduction::mean,
        typed<double>(out.divisor), is_single ? typed<A>(out.loss) : nullptr);
    cuda_runtime::check_launch("cross_entropy");
    if (is_single) return;
    launch("cross_entropy", device, count, [&](dim3 grid, dim3 block, cudaStream_t) {
      narrow_kernel<A><<<grid, block, 0, stream>>>(typed<double>(losses), count, typed<A>(out.loss));
    });
  });
}

void cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& targets,
                            const Tensor& weight, const ops::CrossEntropy& forward,
                            const ops::CrossEntropyOptions& options, const Tensor& dlogits) {
  if (dlogits.numel() == 0) return;
  const Device device = logits.device();
  with_floating(logits.dtype(), [&]<class T>(TypeTag<T>) {
    using A = Computed<T>;
    const LossRows<T> rows = loss_rows<T>(logits, targets, weight, options);
    const cuda_runtime::DeviceGuard guard(device);
    backward_kernel<T><<<static_cast<unsigned>(rows.targets.count), threads_for_row(rows.targets.classes), 0,
                         cuda_runtime::current_stream(device)>>>(
        rows, typed<A>(dloss), options.reduction != ops::LossReduction::none,
        options.reduction == ops::LossReduction::mean ? typed<double>(forward.divisor) : nullptr,
        typed<A>(forward.log_sum_exp), typed<T>(dlogits));
    cuda_runtime::check_launch("cross_entropy_backward");
  });
}

}  // namespace tessera::kernels::cuda
