// Cross entropy from logits. A block takes a row: forward keeps two values of it, the largest logit and
// log(sum(exp(x - largest))); backward reads the row again and writes its gradient. The losses of the rows,
// and the weights of those that count, are added up in order by one block, in f64.
#include "tensor/cuda/layers/loss.h"

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/indexing/index.cuh"
#include "tensor/cuda/reduction/block_reduce.cuh"
#include "tensor/cuda/runtime/late_errors.h"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/log.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

using cuda_runtime::LateErrorSlot;

constexpr int summing_threads = 512;

template <class T>
T* typed(const Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.raw_data()) : nullptr;
}

/// The operands of forward and backward.
template <class T>
struct Rows {
  const T* logits;
  IndexValues targets;
  const T* weight;  ///< of the classes; null: 1
  int64_t count;
  uint32_t classes;
  int64_t ignored;
  double smoothing;

  /// Whether row i has a target that counts.
  __device__ bool counts(int64_t i) const {
    const int64_t id = targets[i];
    return id != ignored && id >= 0 && id < classes;
  }
  __device__ double weight_of(int64_t id) const {
    return weight != nullptr ? static_cast<double>(loaded(weight[id])) : 1.0;
  }
};

template <class T>
Rows<T> rows_of(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                const ops::CrossEntropyOptions& options) {
  constexpr int64_t limit = (int64_t{1} << 31) - 1;
  const int64_t classes = logits.shape().back();
  require<ValueError>(classes <= limit && targets.numel() <= limit, "cross_entropy on ", logits.device(),
                      ": expected at most ", limit, " rows and classes, got ", targets.numel(), " and ",
                      classes);
  return {typed<const T>(logits),         IndexValues(targets), typed<const T>(weight), targets.numel(),
          static_cast<uint32_t>(classes), options.ignore_index, options.label_smoothing};
}

/// Writes the first target that is neither a class nor the ignored id.
template <class T>
__global__ void __launch_bounds__(summing_threads) check_kernel(Rows<T> rows, LateErrorSlot* slot) {
  __shared__ int64_t scratch[32];
  int64_t first = INT64_MAX;
  for (int64_t i = threadIdx.x; i < rows.count && first == INT64_MAX; i += summing_threads)
    if (rows.targets[i] != rows.ignored && !rows.counts(i)) first = i;
  first = block_reduce(first, scratch, [](int64_t a, int64_t b) { return b < a ? b : a; });
  if (threadIdx.x == 0 && first != INT64_MAX) *slot = {first, rows.targets[first]};
}

/// The two saved values, and the loss in f64.
template <class T>
__global__ void forward_kernel(Rows<T> rows, Computed<T>* log_sum_exp, double* losses) {
  using A = Computed<T>;
  __shared__ A scratch[32];
  __shared__ double wide_scratch[32];
  const int64_t row = blockIdx.x;
  const T* x = rows.logits + row * rows.classes;
  A largest = -elementwise::Floating<A>::infinity;
  for (uint32_t i = threadIdx.x; i < rows.classes; i += blockDim.x)
    largest = LargerOrAny()(largest, loaded(x[i]));
  largest = block_reduce(largest, scratch, LargerOrAny());
  A sum = 0;
  for (uint32_t i = threadIdx.x; i < rows.classes; i += blockDim.x)
    sum += elementwise::exp(loaded(x[i]) - largest);
  const A log_sum = elementwise::log(block_reduce(sum, scratch, Add()));
  double spread = 0;  // over all classes, of label smoothing
  if (rows.smoothing != 0) {
    A terms = 0;
    for (uint32_t i = threadIdx.x; i < rows.classes; i += blockDim.x) {
      const A term = log_sum - (loaded(x[i]) - largest);
      terms += rows.weight != nullptr ? loaded(rows.weight[i]) * term : term;
    }
    spread = block_reduce(static_cast<double>(terms), wide_scratch, Add());
  }
  if (threadIdx.x != 0) return;
  log_sum_exp[row] = largest;
  log_sum_exp[rows.count + row] = log_sum;
  double loss = 0;
  if (rows.counts(row)) {
    const int64_t id = rows.targets[row];
    loss =
        (1 - rows.smoothing) * rows.weight_of(id) * static_cast<double>(log_sum - (loaded(x[id]) - largest));
    if (rows.smoothing != 0) loss += rows.smoothing / static_cast<double>(rows.classes) * spread;
  }
  losses[row] = loss;
}

/// One block: the divisor, and the loss of a mean or a sum.
template <class T>
__global__ void __launch_bounds__(summing_threads)
    sum_kernel(Rows<T> rows, const double* losses, bool is_mean, double* divisor, Computed<T>* loss) {
  __shared__ double scratch[32];
  double weights = 0, sum = 0;
  for (int64_t i = threadIdx.x; i < rows.count; i += summing_threads) {
    if (rows.counts(i)) weights += rows.weight_of(rows.targets[i]);
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
__global__ void backward_kernel(Rows<T> rows, const Computed<T>* dloss, bool single, const double* divisor,
                                const Computed<T>* log_sum_exp, T* dlogits) {
  using A = Computed<T>;
  __shared__ double scratch[32];
  const int64_t row = blockIdx.x;
  const T* x = rows.logits + row * rows.classes;
  T* dx = dlogits + row * rows.classes;
  if (!rows.counts(row)) {
    for (uint32_t i = threadIdx.x; i < rows.classes; i += blockDim.x) dx[i] = stored<T>(A(0));
    return;
  }
  const double gradient =
      static_cast<double>(dloss[single ? 0 : row]) / (divisor != nullptr ? *divisor : 1.0);
  const double per_class = rows.smoothing / static_cast<double>(rows.classes);
  double total_weight = static_cast<double>(rows.classes);
  if (rows.weight != nullptr && rows.smoothing != 0) {
    double weights = 0;
    for (uint32_t i = threadIdx.x; i < rows.classes; i += blockDim.x)
      weights += static_cast<double>(loaded(rows.weight[i]));
    total_weight = block_reduce(weights, scratch, Add());
  }
  const int64_t id = rows.targets[row];
  const double at_target = gradient * (1 - rows.smoothing) * rows.weight_of(id);
  const A scale = static_cast<A>(at_target + gradient * per_class * total_weight);
  const A smoothed = static_cast<A>(gradient * per_class);
  const A largest = log_sum_exp[row], log_sum = log_sum_exp[rows.count + row];
  for (uint32_t i = threadIdx.x; i < rows.classes; i += blockDim.x) {
    const A spread = rows.weight != nullptr ? smoothed * loaded(rows.weight[i]) : smoothed;
    A value = scale * elementwise::exp((loaded(x[i]) - largest) - log_sum) - spread;
    if (i == id) value -= static_cast<A>(at_target);
    dx[i] = stored<T>(value);
  }
}

}  // namespace

void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                   const ops::CrossEntropyOptions& options, const ops::CrossEntropy& out) {
  const Device device = logits.device();
  with_floating(logits.dtype(), [&]<class T>(TypeTag<T>) {
    using A = Computed<T>;
    const Rows<T> rows = rows_of<T>(logits, targets, weight, options);
    const cuda_runtime::DeviceGuard guard(device);
    const cudaStream_t stream = cuda_runtime::current_stream(device);
    const Tensor losses = Tensor::empty({rows.count}, f64, device);
    if (rows.count > 0) {
      LateErrorSlot* slot = cuda_runtime::late_error_slot(
          device, {"cross_entropy", targets.shape(), rows.classes, options.ignore_index});
      check_kernel<T><<<1, summing_threads, 0, stream>>>(rows, slot);
      forward_kernel<T><<<static_cast<unsigned>(rows.count), threads_for_row(rows.classes), 0, stream>>>(
          rows, typed<A>(out.log_sum_exp), typed<double>(losses));
      cuda_runtime::check_launch("cross_entropy");
    }
    const bool is_single = options.reduction != ops::LossReduction::none;
    sum_kernel<T><<<1, summing_threads, 0, stream>>>(
        rows, typed<double>(losses), options.reduction == ops::LossReduction::mean,
        typed<double>(out.divisor), is_single ? typed<A>(out.loss) : nullptr);
    cuda_runtime::check_launch("cross_entropy");
    if (is_single) return;
    launch("cross_entropy", device, rows.count, [&](dim3 grid, dim3 block, cudaStream_t) {
      narrow_kernel<A><<<grid, block, 0, stream>>>(typed<double>(losses), rows.count, typed<A>(out.loss));
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
    const Rows<T> rows = rows_of<T>(logits, targets, weight, options);
    const cuda_runtime::DeviceGuard guard(device);
    backward_kernel<T><<<static_cast<unsigned>(rows.count), threads_for_row(rows.classes), 0,
                         cuda_runtime::current_stream(device)>>>(
        rows, typed<A>(dloss), options.reduction != ops::LossReduction::none,
        options.reduction == ops::LossReduction::mean ? typed<double>(forward.divisor) : nullptr,
        typed<A>(forward.log_sum_exp), typed<T>(dlogits));
    cuda_runtime::check_launch("cross_entropy_backward");
  });
}

}  // namespace tessera::kernels::cuda
