// A result's elements are shared by the threads of a row (at most a block), of which the values are combined
// in a tree of fixed shape; long results are cut into segments, of which the values are combined in order by
// a second kernel. Where results are neighbours in memory, threads take a result each instead, so that loads
// are coalesced either way. Sums are kept in the type that elements are computed in, for at most
// `longest_run` elements, and in f64 after that.
#include "tensor/cuda/reduction/reduction.h"

#include <algorithm>
#include <cmath>

#include "tensor/cuda/reduction/layout.cuh"
#include "tensor/cuda/reduction/passes.cuh"
#include "tensor/elementwise/log.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

using ops::Reduction;
using Dims = ReductionLayout::Dims;

/// The type of what passes between threads.
template <class A>
using PartialOf = std::conditional_t<std::is_floating_point_v<A>, double, int64_t>;

/// What is left to do with a result, and where it goes.
struct Ending {
  Finish finish = Finish::as_is;
  double factor = 0;
  DType dtype = DType::f64;
  void* out = nullptr;
};

/// One pass over all elements, computed in a type A.
struct Job {
  ReductionLayout layout;
  double parameter;        ///< of every result, unless `parameters`
  const void* parameters;  ///< one A per result, or null
  uint32_t segments, segment_length;
  void* partials;  ///< results x segments of PartialOf<A>; null for one segment
  Ending ending;
};

/// The kernels of a pass. The host's code that launches them is the same for all.
struct PassKernels {
  const void *rows, *columns, *combine;
  DType partial;
};

template <class Value>
__device__ void store(DType dtype, void* out, uint32_t at, Value value) {
  switch (dtype) {
    case DType::f64:
      static_cast<double*>(out)[at] = static_cast<double>(value);
      return;
    case DType::f32:
      static_cast<float*>(out)[at] = static_cast<float>(value);
      return;
    case DType::bf16:
      static_cast<bfloat16*>(out)[at] = stored<bfloat16>(value);
      return;
    case DType::f16:
      static_cast<float16*>(out)[at] = stored<float16>(value);
      return;
    case DType::i64:
      static_cast<int64_t*>(out)[at] = static_cast<int64_t>(value);
      return;
    case DType::i32:
      static_cast<int32_t*>(out)[at] = static_cast<int32_t>(value);
      return;
    default:
      static_cast<uint8_t*>(out)[at] = static_cast<uint8_t>(value);
  }
}

/// Of the endings with long code a pass has its own one alone.
template <Pass P, class T, class A>
__device__ void end_result(const Job& job, const T* x, uint32_t result, PartialOf<A> value) {
  const Ending& ending = job.ending;
  if (ending.finish == Finish::as_is) return store(ending.dtype, ending.out, result, value);
  if (ending.finish == Finish::at_least)
    return store(ending.dtype, ending.out, result, static_cast<double>(value) >= ending.factor ? 1.0 : 0.0);
  double v = static_cast<double>(value);
  switch (ending.finish) {
    case Finish::divided:
      v = v / ending.factor;
      break;
    case Finish::root:
      v = sqrt(v);
      break;
    case Finish::divided_root:
      v = sqrt(v / ending.factor);
      break;
    case Finish::power:
      if constexpr (P == Pass::sum_of_powers) v = elementwise::pow(v, ending.factor);
      break;
    case Finish::finite:
      v = isinf(v) ? 0.0 : v;
      break;
    case Finish::logarithm_shifted:
      if constexpr (P == Pass::sum_of_exponentials)
        v = elementwise::log(v) + static_cast<double>(static_cast<const A*>(job.parameters)[result]);
      break;
    case Finish::mean_of_deviations:
      if constexpr (P == Pass::sum_of_deviations)
        v = static_cast<double>(static_cast<A>(loaded(x[offset_of(job.layout.kept, result)]))) +
            v / ending.factor;
      break;
    default:
      break;
  }
  store(ending.dtype, ending.out, result, v);
}

/// A segment of a result that has been reduced.
template <Pass P, class T, class A>
__device__ void end_segment(const Job& job, const T* x, uint32_t result, uint32_t segment,
                            PartialOf<A> value) {
  if (job.partials != nullptr)
    static_cast<PartialOf<A>*>(job.partials)[static_cast<size_t>(result) * job.segments + segment] = value;
  else
    end_result<P, T, A>(job, x, result, value);
}

/// The elements first, first + step, ... below `end` of the result at `x`.
template <Pass P, class T, class A>
__device__ PartialOf<A> reduce_run(const T* x, const Dims& dims, uint32_t first, uint32_t end, uint32_t step,
                                   A parameter) {
  PartialOf<A> total = identity<P, PartialOf<A>>();
  uint64_t i = first;
  while (i < end) {
    A run = identity<P, A>();
    for (uint32_t k = 0; k < longest_run && i < end; ++k, i += step)
      run = combined<P>(
          run, mapped<P>(static_cast<A>(loaded(x[offset_of(dims, static_cast<uint32_t>(i))])), parameter));
    total = combined<P>(total, static_cast<PartialOf<A>>(run));
  }
  return total;
}

template <Pass P, class T, class A>
__device__ A parameter_of(const Job& job, const T* x, uint32_t result) {
  if constexpr (P == Pass::sum_of_deviations)
    return static_cast<A>(loaded(*x));
  else
    return job.parameters != nullptr ? static_cast<const A*>(job.parameters)[result]
                                     : static_cast<A>(job.parameter);
}

/// blockDim.x threads to a result, blockDim.y results to a block; gridDim.y segments.
template <Pass P, class T, class A>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    reduce_rows(const __grid_constant__ Job job, const T* x) {
  __shared__ PartialOf<A> values[threads_per_block];
  const uint32_t result = blockIdx.x * blockDim.y + threadIdx.y, segment = blockIdx.y;
  PartialOf<A>* row = values + threadIdx.y * blockDim.x;
  const bool exists = result < job.layout.results;
  PartialOf<A> value = identity<P, PartialOf<A>>();
  if (exists) {
    const T* at = x + offset_of(job.layout.kept, result);
    const uint32_t begin = segment * job.segment_length;
    const uint32_t end = min(job.layout.count, begin + job.segment_length);
    value = reduce_run<P, T, A>(at, job.layout.reduced, begin + threadIdx.x, end, blockDim.x,
                                parameter_of<P, T, A>(job, at, result));
  }
  row[threadIdx.x] = value;
  __syncthreads();
  for (uint32_t half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) row[threadIdx.x] = combined<P>(row[threadIdx.x], row[threadIdx.x + half]);
    __syncthreads();
  }
  if (exists && threadIdx.x == 0) end_segment<P, T, A>(job, x, result, segment, row[0]);
}

/// blockDim.x neighbouring results to a block, blockDim.y threads to each; gridDim.y segments.
template <Pass P, class T, class A>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    reduce_columns(const __grid_constant__ Job job, const T* x) {
  __shared__ PartialOf<A> values[threads_per_block];
  const uint32_t result = blockIdx.x * blockDim.x + threadIdx.x, segment = blockIdx.y;
  const bool exists = result < job.layout.results;
  PartialOf<A> value = identity<P, PartialOf<A>>();
  if (exists) {
    const T* at = x + offset_of(job.layout.kept, result);
    const uint32_t begin = segment * job.segment_length;
    const uint32_t end = min(job.layout.count, begin + job.segment_length);
    value = reduce_run<P, T, A>(at, job.layout.reduced, begin + threadIdx.y, end, blockDim.y,
                                parameter_of<P, T, A>(job, at, result));
  }
  values[threadIdx.y * blockDim.x + threadIdx.x] = value;
  __syncthreads();
  if (!exists || threadIdx.y != 0) return;
  for (uint32_t k = 1; k < blockDim.y; ++k) value = combined<P>(value, values[k * blockDim.x + threadIdx.x]);
  end_segment<P, T, A>(job, x, result, segment, value);
}

/// The segments of each result, in order. x is read by a sum of deviations alone.
template <Pass P, class T, class A>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    combine_segments(const __grid_constant__ Job job, const T* x) {
  const uint64_t result = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (result >= job.layout.results) return;
  const PartialOf<A>* partials = static_cast<const PartialOf<A>*>(job.partials) + result * job.segments;
  PartialOf<A> value = partials[0];
  for (uint32_t k = 1; k < job.segments; ++k) value = combined<P>(value, partials[k]);
  end_result<P, T, A>(job, x, static_cast<uint32_t>(result), value);
}

void run_kernels(const PassKernels& kernels, const Tensor& x, Job job) {
  const ReductionLayout& layout = job.layout;
  const Device device = x.device();
  const cuda_runtime::DeviceGuard guard(device);
  const cudaStream_t stream = cuda_runtime::current_stream(device);
  const ReductionGrid launched(layout, device);
  job.segments = launched.segments, job.segment_length = launched.segment_length;
  Tensor partials;
  if (job.segments > 1) {
    partials = Tensor::empty({int64_t{layout.results} * job.segments}, kernels.partial, device);
    job.partials = partials.raw_data();
  }
  const void* values = x.raw_data();
  void* arguments[] = {&job, &values};
  const void* const kernel = layout.columns ? kernels.columns : kernels.rows;
  cuda_runtime::check(cudaLaunchKernel(kernel, launched.grid(), launched.block, arguments, 0, stream),
                      "reduce");
  if (job.segments == 1) return;
  launch("reduce", device, layout.results, [&](dim3 grid, dim3 block, cudaStream_t) {
    cuda_runtime::check(cudaLaunchKernel(kernels.combine, grid, block, arguments, 0, stream), "reduce");
  });
}

template <Pass P, class T, class A>
void run_pass(const Tensor& x, const Job& job) {
  using X = std::conditional_t<P == Pass::sum_of_deviations, T, A>;
  const PassKernels kernels = {reinterpret_cast<const void*>(&reduce_rows<P, T, A>),
                               reinterpret_cast<const void*>(&reduce_columns<P, T, A>),
                               reinterpret_cast<const void*>(&combine_segments<P, X, A>),
                               dtype_of<PartialOf<A>>};
  run_kernels(kernels, x, job);
}

/// The element type of a tensor on a device.
template <class T>
using Element = std::conditional_t<std::is_same_v<T, bool>, Boolean, T>;
/// The type that sums of elements of type T are kept in: f32 for the half types, i64 for integers and bool.
template <class T>
using Accumulated = std::conditional_t<std::is_floating_point_v<Computed<T>>, Computed<T>, int64_t>;

Job job_for(const ReductionLayout& layout, const Tensor& out, Finish finish, double factor = 0) {
  return {layout, 0, nullptr, 1, 0, nullptr, {finish, factor, out.dtype(), out.raw_data()}};
}

template <class T>
void reduce_any_type(Reduction kind, const ReductionLayout& layout, const Tensor& x, const Tensor& out) {
  using A = Accumulated<T>;
  const double count = layout.count;
  switch (kind) {
    case Reduction::sum:
      return run_pass<Pass::sum, T, A>(x, job_for(layout, out, Finish::as_is));
    case Reduction::mean:
      return run_pass<Pass::sum, T, A>(x, job_for(layout, out, Finish::divided, count));
    case Reduction::prod:
      return run_pass<Pass::product, T, A>(x, job_for(layout, out, Finish::as_is));
    case Reduction::max:
      return run_pass<Pass::largest, T, A>(x, job_for(layout, out, Finish::as_is));
    case Reduction::min:
      return run_pass<Pass::smallest, T, A>(x, job_for(layout, out, Finish::as_is));
    default:
      return run_pass<Pass::count_of_nonzeros, T, A>(
          x, job_for(layout, out, Finish::at_least, kind == Reduction::any ? 1.0 : count));
  }
}

/// A pass for the means, then one for the deviations. Means are of the deviations from each result's first
/// element, so that the mean of equal values is exactly that value.
template <class T>
void reduce_variance(Reduction kind, double correction, const ReductionLayout& layout, const Tensor& x,
                     const Tensor& out) {
  using A = Accumulated<T>;
  const Tensor means = Tensor::empty(out.shape(), dtype_of<A>, out.device());
  const double divisor = std::max(0.0, layout.count - correction);
  if (layout.count > 0)
    run_pass<Pass::sum_of_deviations, T, A>(x,
                                            job_for(layout, means, Finish::mean_of_deviations, layout.count));
  Job job = job_for(layout, out, kind == Reduction::var ? Finish::divided : Finish::divided_root, divisor);
  job.parameters = means.raw_data();
  run_pass<Pass::sum_of_squared_deviations, T, A>(x, job);
}

/// log(sum(exp(x - largest))) + largest.
template <class T>
void reduce_logsumexp(const ReductionLayout& layout, const Tensor& x, const Tensor& out) {
  using A = Accumulated<T>;
  const Tensor shifts = Tensor::empty(out.shape(), dtype_of<A>, out.device());
  run_pass<Pass::largest, T, A>(x, job_for(layout, shifts, Finish::finite));
  Job job = job_for(layout, out, Finish::logarithm_shifted);
  job.parameters = shifts.raw_data();
  run_pass<Pass::sum_of_exponentials, T, A>(x, job);
}

/// Computed in f64, so that the squares of the largest f32 values do not overflow.
template <class T>
void reduce_norm(double p, const ReductionLayout& layout, const Tensor& x, const Tensor& out) {
  Job job = job_for(layout, out, Finish::as_is);
  job.parameter = p;
  if (p == 0) return run_pass<Pass::count_of_nonzeros, T, double>(x, job);
  if (p == 1) return run_pass<Pass::sum_of_magnitudes, T, double>(x, job);
  if (std::isinf(p))
    return p > 0 ? run_pass<Pass::largest_magnitude, T, double>(x, job)
                 : run_pass<Pass::smallest_magnitude, T, double>(x, job);
  job.ending.finish = p == 2 ? Finish::root : Finish::power;
  job.ending.factor = 1 / p;
  return p == 2 ? run_pass<Pass::sum_of_squares, T, double>(x, job)
                : run_pass<Pass::sum_of_powers, T, double>(x, job);
}

}  // namespace

void reduce(Reduction kind, double parameter, const Tensor& x, const Tensor& out) {
  if (out.numel() == 0) return;
  const ReductionLayout layout = reduction_layout(x, out);
  if (kind <= Reduction::all)
    return with_any(x.dtype(),
                    [&]<class T>(TypeTag<T>) { reduce_any_type<Element<T>>(kind, layout, x, out); });
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    if (kind == Reduction::norm) return reduce_norm<T>(parameter, layout, x, out);
    if (kind == Reduction::logsumexp) return reduce_logsumexp<T>(layout, x, out);
    reduce_variance<T>(kind, parameter, layout, x, out);
  });
}

}  // namespace tessera::kernels::cuda
