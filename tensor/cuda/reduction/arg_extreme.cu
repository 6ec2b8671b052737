// The position of an extreme: laid out and launched as a reduction of (value, position) pairs, whose order is
// total, so that the result does not depend on how pairs are combined.
#include "tensor/cuda/reduction/arg_extreme.h"

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/reduction/layout.cuh"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

template <class A>
struct Candidate {
  A value;
  uint32_t index;  ///< UINT32_MAX: of no elements
};

/// The more extreme of two: a NaN before all, and the first of equals.
template <class A>
__device__ Candidate<A> better(Candidate<A> a, Candidate<A> b, bool largest) {
  if (a.index == UINT32_MAX || b.index == UINT32_MAX) return a.index == UINT32_MAX ? b : a;
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan != b_nan) return a_nan ? a : b;
  if (!a_nan && a.value != b.value) return (b.value > a.value) == largest ? b : a;
  return a.index < b.index ? a : b;
}

template <class A>
struct Job {
  ReductionLayout layout;
  bool largest;
  uint32_t segments, segment_length;
  Candidate<A>* partials;  ///< results x segments; null for one segment
  int64_t* out;

  __device__ void end(uint32_t result, uint32_t segment, Candidate<A> best) const {
    if (partials != nullptr)
      partials[static_cast<size_t>(result) * segments + segment] = best;
    else
      out[result] = best.index;
  }
};

/// The elements begin + first, begin + first + step, ... of a segment of a result.
template <class T, class A>
__device__ Candidate<A> extreme_of(const Job<A>& job, const T* x, uint32_t result, uint32_t segment,
                                   uint32_t first, uint32_t step) {
  const T* at = x + offset_of(job.layout.kept, result);
  const uint64_t begin = static_cast<uint64_t>(segment) * job.segment_length;
  const uint64_t end = min(static_cast<uint64_t>(job.layout.count), begin + job.segment_length);
  Candidate<A> best{A(0), UINT32_MAX};
  for (uint64_t i = begin + first; i < end; i += step) {
    const auto index = static_cast<uint32_t>(i);
    best =
        better(best, {static_cast<A>(loaded(at[offset_of(job.layout.reduced, index)])), index}, job.largest);
  }
  return best;
}

/// blockDim.x threads to a result, blockDim.y results to a block; gridDim.y segments.
template <class T, class A>
__global__ void __launch_bounds__(threads_per_block, min_blocks) extreme_rows(Job<A> job, const T* x) {
  __shared__ __align__(16) unsigned char memory[threads_per_block * sizeof(Candidate<A>)];
  Candidate<A>* const row = reinterpret_cast<Candidate<A>*>(memory) + threadIdx.y * blockDim.x;
  const uint32_t result = blockIdx.x * blockDim.y + threadIdx.y, segment = blockIdx.y;
  const bool exists = result < job.layout.results;
  row[threadIdx.x] =
      exists ? extreme_of(job, x, result, segment, threadIdx.x, blockDim.x) : Candidate<A>{A(0), UINT32_MAX};
  __syncthreads();
  for (uint32_t half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) row[threadIdx.x] = better(row[threadIdx.x], row[threadIdx.x + half], job.largest);
    __syncthreads();
  }
  if (exists && threadIdx.x == 0) job.end(result, segment, row[0]);
}

/// blockDim.x neighbouring results to a block, blockDim.y threads to each; gridDim.y segments.
template <class T, class A>
__global__ void __launch_bounds__(threads_per_block, min_blocks) extreme_columns(Job<A> job, const T* x) {
  __shared__ __align__(16) unsigned char memory[threads_per_block * sizeof(Candidate<A>)];
  auto* const values = reinterpret_cast<Candidate<A>*>(memory);
  const uint32_t result = blockIdx.x * blockDim.x + threadIdx.x, segment = blockIdx.y;
  const bool exists = result < job.layout.results;
  Candidate<A> best{A(0), UINT32_MAX};
  if (exists) best = extreme_of(job, x, result, segment, threadIdx.y, blockDim.y);
  values[threadIdx.y * blockDim.x + threadIdx.x] = best;
  __syncthreads();
  if (!exists || threadIdx.y != 0) return;
  for (uint32_t k = 1; k < blockDim.y; ++k)
    best = better(best, values[k * blockDim.x + threadIdx.x], job.largest);
  job.end(result, segment, best);
}

template <class A>
__global__ void __launch_bounds__(threads_per_block, min_blocks) combine_segments(Job<A> job) {
  const uint64_t result = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (result >= job.layout.results) return;
  const Candidate<A>* partials = job.partials + result * job.segments;
  Candidate<A> best = partials[0];
  for (uint32_t k = 1; k < job.segments; ++k) best = better(best, partials[k], job.largest);
  job.out[result] = best.index;
}

template <class T>
void find(bool largest, const Tensor& x, const Tensor& out) {
  using A = Computed<T>;
  const Device device = x.device();
  const ReductionLayout layout = reduction_layout(x, out);
  const ReductionGrid launched(layout, device);
  Job<A> job{layout,
             largest,
             launched.segments,
             launched.segment_length,
             nullptr,
             static_cast<int64_t*>(out.raw_data())};
  Tensor partials;
  if (job.segments > 1) {
    const Shape shape{int64_t{layout.results}, int64_t{job.segments},
                      static_cast<int64_t>(sizeof(Candidate<A>))};
    partials = Tensor::empty(shape, u8, device);
    job.partials = static_cast<Candidate<A>*>(partials.raw_data());
  }
  const T* values = static_cast<const T*>(x.raw_data());
  const cuda_runtime::DeviceGuard guard(device);
  const cudaStream_t stream = cuda_runtime::current_stream(device);
  if (layout.columns)
    extreme_columns<T, A><<<launched.grid(), launched.block, 0, stream>>>(job, values);
  else
    extreme_rows<T, A><<<launched.grid(), launched.block, 0, stream>>>(job, values);
  cuda_runtime::check_launch("argmax");
  if (job.segments == 1) return;
  launch("argmax", device, layout.results,
         [&](dim3 grid, dim3 block, cudaStream_t) { combine_segments<A><<<grid, block, 0, stream>>>(job); });
}

}  // namespace

void arg_extreme(bool largest, int64_t, const Tensor& x, const Tensor& out) {
  if (out.numel() == 0) return;
  with_any(x.dtype(), [&]<class T>(TypeTag<T>) {
    find<std::conditional_t<std::is_same_v<T, bool>, Boolean, T>>(largest, x, out);
  });
}

}  // namespace tessera::kernels::cuda
