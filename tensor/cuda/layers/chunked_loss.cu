// Cross entropy of the rows of a chunk: a block takes a row, computes its loss and, in the same memory, the
// gradient of its logits. The losses are added to the sum in a fixed order.
#include "tensor/cuda/layers/loss.h"
#include "tensor/cuda/layers/loss_rows.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

/// One block: the number of targets that count, or the sum of their classes' weights.
template <class A>
__global__ void __launch_bounds__(loss_sum_threads)
    divisor_kernel(Targets targets, const A* weight, double* divisor) {
  __shared__ double scratch[32];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < targets.count; i += loss_sum_threads)
    if (targets.counts(i)) sum += weight != nullptr ? static_cast<double>(weight[targets[i]]) : 1.0;
  sum = block_reduce(sum, scratch, Add());
  if (threadIdx.x == 0) *divisor = sum;
}

__global__ void one_kernel(double* divisor) {
  *divisor = 1;
}

/// The logits are replaced where `gradient` is set.
template <class A>
__global__ void row_kernel(LossRows<A> rows, const double* divisor, bool with_gradient, A* logits,
                           double* losses) {
  __shared__ A scratch[32];
  __shared__ double wide_scratch[32];
  const int64_t row = blockIdx.x;
  const LogSumExp<A> lse = log_sum_exp_of(rows.row(row), rows.targets.classes, scratch);
  const double loss = row_loss(rows, row, lse, wide_scratch);
  if (threadIdx.x == 0) losses[row] = loss;
  if (!with_gradient) return;
  __syncthreads();  // every thread has read the target's logit
  row_gradient(rows, row, lse, 1.0 / *divisor, wide_scratch, logits + row * rows.targets.classes);
}

__global__ void __launch_bounds__(loss_sum_threads)
    add_kernel(const double* losses, int64_t count, double* sum) {
  __shared__ double scratch[32];
  double total = 0;
  for (int64_t i = threadIdx.x; i < count; i += loss_sum_threads) total += losses[i];
  total = block_reduce(total, scratch, Add());
  if (threadIdx.x == 0) *sum += total;
}

}  // namespace

void cross_entropy_divisor(const Tensor& given, int64_t classes, const Tensor& weight,
                           const ops::CrossEntropyOptions& options, const Tensor& divisor) {
  const Device device = divisor.device();
  const Targets targets = targets_of(given, classes, options);
  const cuda_runtime::DeviceGuard guard(device);
  const cudaStream_t stream = cuda_runtime::current_stream(device);
  if (targets.count > 0) check_targets(targets, given.shape(), device);
  if (options.reduction != ops::LossReduction::mean)
    one_kernel<<<1, 1, 0, stream>>>(typed<double>(divisor));
  else if (weight.defined() && weight.dtype() == f64)
    divisor_kernel<double>
        <<<1, loss_sum_threads, 0, stream>>>(targets, typed<double>(weight), typed<double>(divisor));
  else
    divisor_kernel<float>
        <<<1, loss_sum_threads, 0, stream>>>(targets, typed<float>(weight), typed<double>(divisor));
  cuda_runtime::check_launch("cross_entropy_divisor");
}

void cross_entropy_in_place(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                            const ops::CrossEntropyOptions& options, const Tensor& divisor,
                            bool with_gradient, const Tensor& sum) {
  const Device device = logits.device();
  const auto run = [&]<class A>(TypeTag<A>) {
    const LossRows<A> rows = loss_rows<A>(logits, targets, weight, options);
    const int64_t count = rows.targets.count;
    if (count == 0) return;
    const cuda_runtime::DeviceGuard guard(device);
    const cudaStream_t stream = cuda_runtime::current_stream(device);
    const Tensor losses = Tensor::empty({count}, f64, device);
    row_kernel<A><<<static_cast<unsigned>(count), threads_for_row(rows.targets.classes), 0, stream>>>(
        rows, typed<double>(divisor), with_gradient, typed<A>(logits), typed<double>(losses));
    cuda_runtime::check_launch("cross_entropy_in_place");
    add_kernel<<<1, loss_sum_threads, 0, stream>>>(typed<double>(losses), count, typed<double>(sum));
    cuda_runtime::check_launch("cross_entropy_in_place");
  };
  logits.dtype() == f64 ? run(TypeTag<double>()) : run(TypeTag<float>());
}

}  // namespace tessera::kernels::cuda
