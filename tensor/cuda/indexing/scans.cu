// Running values along lines. The threads of a row share a line: each takes a few neighbouring elements, and
// the values that they start from are combined in a tree of fixed shape. The elements pass through shared
// memory: a block reads and writes those of its lines one after the other. Long lines are cut into segments:
// their totals first, then each segment from the total of those before it. Where neighbouring lines are
// neighbours in memory a thread takes a line instead.
#include "tensor/cuda/indexing/scans.h"

#include <algorithm>
#include <bit>

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/indexing/offsets.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

/// Elements of a thread at a time.
constexpr int run_elements = 4;
/// The shortest segment.
constexpr int64_t segment_elements = 4096;

/// Sums of elements of type T, in f64 or i64.
template <class T>
struct RunningSum {
  using Element = T;
  using State = std::conditional_t<std::is_floating_point_v<Computed<T>>, double, int64_t>;
  using Out = std::conditional_t<std::is_floating_point_v<Computed<T>>, T, int64_t>;
  __device__ State none() const { return 0; }
  __device__ State of(T x, int64_t) const { return static_cast<State>(loaded(x)); }
  __device__ State combine(State a, State b) const { return a + b; }
  __device__ Out result(State sum) const { return stored<Out>(sum); }
};

/// The position of an extreme: the last of equals, and the last NaN where there is one.
template <class T>
struct RunningExtreme {
  using Element = T;
  struct State {
    Computed<T> value;
    int64_t index;  ///< -1: of no elements
  };
  using Out = int64_t;
  bool largest;
  __device__ State none() const { return {Computed<T>(0), -1}; }
  __device__ State of(T x, int64_t i) const { return {loaded(x), i}; }
  __device__ State combine(State a, State b) const {
    if (a.index < 0 || b.index < 0) return b.index < 0 ? a : b;
    const bool better = largest ? b.value >= a.value : b.value <= a.value;
    return better || b.value != b.value ? b : a;
  }
  __device__ Out result(State state) const { return state.index; }
};

template <class Op>
struct Job {
  Op op;
  const typename Op::Element* x;
  typename Op::Out* out;
  Offsets from, to;        ///< of the lines
  int64_t step, out_step;  ///< along them
  int64_t lines, n;
  uint32_t segments;
  int64_t segment_length;
  typename Op::State* totals;  ///< lines x segments; null for one segment
};

/// The value before this thread's, of the threads of its row, and the value of all of them. `values`: the
/// row's blockDim.x states in shared memory.
template <class Op>
__device__ typename Op::State scan_row(const Op& op, typename Op::State own, typename Op::State* values,
                                       typename Op::State* total) {
  using State = typename Op::State;
  values[threadIdx.x] = own;
  __syncthreads();
  for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {
    const State sum = threadIdx.x >= distance
                          ? op.combine(values[threadIdx.x - distance], values[threadIdx.x])
                          : values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = sum;
    __syncthreads();
  }
  *total = values[blockDim.x - 1];
  const State before = threadIdx.x == 0 ? op.none() : values[threadIdx.x - 1];
  __syncthreads();
  return before;
}

/// Elements of a block's tile in shared memory: a word is left out after every 128 bytes, so that threads
/// that are run_elements apart meet different banks.
template <class T>
struct StagedTile {
  static constexpr int group = 128 / static_cast<int>(sizeof(T));
  static constexpr int gap = sizeof(T) < 4 ? 4 / static_cast<int>(sizeof(T)) : 1;
  static constexpr int elements = run_elements * threads_per_block;
  T at[elements + elements / group * gap];
  __device__ T& operator[](int i) { return at[i + i / group * gap]; }
};

/// The places of a block's lines, and the part of them that is in shared memory.
struct LineTile {
  const int64_t* places;  ///< of the lines
  int64_t first, step;    ///< of their elements
  int lines, width, pitch;

  /// Calls body(place, i) for the tile's elements, i being their index in shared memory; neighbouring threads
  /// take neighbouring elements.
  template <class Body>
  __device__ __forceinline__ void for_each(const Body& body) const {
    const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
#pragma unroll
    for (int r = 0; r < run_elements; ++r) {
      const int k = thread + r * threads_per_block;
      if (k >= lines * width) break;
      const int line = lines == 1 ? 0 : k / width, column = k - line * width;
      body(places[line] + (first + column) * step, line * pitch + column);
    }
  }
};

/// blockDim.x threads to a line, blockDim.y lines to a block; gridDim.y segments. Writes the results, or with
/// `only_totals` those of the segments.
template <class Op>
__global__ void __launch_bounds__(threads_per_block, min_blocks) scan_rows(Job<Op> job, bool only_totals) {
  using State = typename Op::State;
  using Element = typename Op::Element;
  using Out = typename Op::Out;
  __shared__ __align__(16) unsigned char memory[threads_per_block * sizeof(State)];
  __shared__ union Staged {
    StagedTile<Element> elements;
    StagedTile<Out> results;
  } staged;
  __shared__ int64_t from[threads_per_block], to[threads_per_block];
  State* const row = reinterpret_cast<State*>(memory) + threadIdx.y * blockDim.x;
  const int64_t first_line = static_cast<int64_t>(blockIdx.x) * blockDim.y, line = first_line + threadIdx.y;
  const int lines = static_cast<int>(min(job.lines - first_line, int64_t{blockDim.y}));
  const uint32_t segment = blockIdx.y;
  const bool exists = line < job.lines;
  if (exists && threadIdx.x == 0) {
    from[threadIdx.y] = job.from[line];
    to[threadIdx.y] = job.to[line];
  }
  __syncthreads();
  const int pitch = run_elements * static_cast<int>(blockDim.x);
  const int own_first = static_cast<int>(threadIdx.x) * run_elements;
  const int own_place = static_cast<int>(threadIdx.y) * pitch + own_first;
  const int64_t begin = segment * job.segment_length, end = min(job.n, begin + job.segment_length);
  State carried = job.op.none();
  if (exists && !only_totals && segment > 0) carried = job.totals[line * job.segments + segment - 1];
  for (int64_t tile = begin; tile < end; tile += pitch) {
    const int width = static_cast<int>(min(end - tile, int64_t{pitch}));
    LineTile{from, tile, job.step, lines, width, pitch}.for_each(
        [&](int64_t place, int i) { staged.elements[i] = job.x[place]; });
    __syncthreads();
    State states[run_elements];
    State own = job.op.none();
#pragma unroll
    for (int i = 0; i < run_elements; ++i) {
      if (exists && own_first + i < width)
        own = job.op.combine(own, job.op.of(staged.elements[own_place + i], tile + own_first + i));
      states[i] = own;
    }
    State total;
    const State before = job.op.combine(carried, scan_row(job.op, own, row, &total));
    carried = job.op.combine(carried, total);
    if (only_totals) continue;  // scan_row has waited for all threads
#pragma unroll
    for (int i = 0; i < run_elements; ++i)
      if (exists && own_first + i < width)
        staged.results[own_place + i] = job.op.result(job.op.combine(before, states[i]));
    __syncthreads();
    LineTile{to, tile, job.out_step, lines, width, pitch}.for_each(
        [&](int64_t place, int i) { job.out[place] = staged.results[i]; });
    __syncthreads();
  }
  if (only_totals && exists && threadIdx.x == 0) job.totals[line * job.segments + segment] = carried;
}

/// A thread to a line's segment.
template <class Op>
__global__ void __launch_bounds__(threads_per_block, min_blocks) scan_columns(Job<Op> job, bool only_totals) {
  const int64_t line = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  const uint32_t segment = blockIdx.y;
  if (line >= job.lines) return;
  const int64_t at = job.from[line], out = job.to[line];
  const int64_t begin = segment * job.segment_length, end = min(job.n, begin + job.segment_length);
  typename Op::State sum = job.op.none();
  if (!only_totals && segment > 0) sum = job.totals[line * job.segments + segment - 1];
  for (int64_t i = begin; i < end; ++i) {
    sum = job.op.combine(sum, job.op.of(job.x[at + i * job.step], i));
    if (!only_totals) job.out[out + i * job.out_step] = job.op.result(sum);
  }
  if (only_totals) job.totals[line * job.segments + segment] = sum;
}

/// The segments' totals become those of all segments up to them, in order.
template <class Op>
__global__ void __launch_bounds__(threads_per_block, min_blocks) total_kernel(Job<Op> job) {
  const int64_t line = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (line >= job.lines) return;
  typename Op::State* totals = job.totals + line * job.segments;
  for (uint32_t k = 1; k < job.segments; ++k) totals[k] = job.op.combine(totals[k - 1], totals[k]);
}

/// Segments of a line, so that the card has work for all of its multiprocessors.
uint32_t segments_for(int64_t n, int64_t blocks, Device device) {
  const int64_t wanted = 4 * int64_t{cuda_runtime::facts_of(device).multiprocessors} / blocks;
  return static_cast<uint32_t>(std::clamp<int64_t>(std::min(wanted, n / segment_elements), 1, 1024));
}

template <class Op>
void scan(const char* name, const Op& op, const Tensor& x, const Tensor& out, int64_t dim) {
  const Device device = x.device();
  Job<Op> job{op,
              static_cast<const typename Op::Element*>(x.raw_data()),
              static_cast<typename Op::Out*>(out.raw_data()),
              Offsets::of_lines(x, dim),
              Offsets::of_lines(out, dim),
              x.strides()[dim],
              out.strides()[dim],
              x.numel() / x.shape()[dim],
              x.shape()[dim],
              1,
              0,
              nullptr};
  const bool columns = job.step != 1 && job.from.strides[job.from.ndim - 1] == 1 && job.lines >= 32;
  dim3 block(threads_per_block);
  if (!columns) {
    block.x = std::clamp(std::bit_ceil(static_cast<unsigned>(std::min<int64_t>(job.n, 1024) / run_elements)),
                         1u, static_cast<unsigned>(threads_per_block));
    block.y = threads_per_block / block.x;
  }
  const int64_t lines_per_block = columns ? threads_per_block : block.y;
  const int64_t blocks = (job.lines + lines_per_block - 1) / lines_per_block;
  job.segments = segments_for(job.n, blocks, device);
  job.segment_length = (job.n + job.segments - 1) / job.segments;
  Tensor totals;
  if (job.segments > 1) {
    const Shape shape{job.lines, job.segments, static_cast<int64_t>(sizeof(typename Op::State))};
    totals = Tensor::empty(shape, u8, device);
    job.totals = static_cast<typename Op::State*>(totals.raw_data());
  }
  const cuda_runtime::DeviceGuard guard(device);
  const cudaStream_t stream = cuda_runtime::current_stream(device);
  const auto pass = [&](bool only_totals) {
    const dim3 grid(static_cast<unsigned>(blocks), job.segments);
    if (columns)
      scan_columns<Op><<<grid, block, 0, stream>>>(job, only_totals);
    else
      scan_rows<Op><<<grid, block, 0, stream>>>(job, only_totals);
    cuda_runtime::check_launch(name);
  };
  if (job.segments > 1) {
    pass(true);
    launch(name, device, job.lines, [&](dim3 many, dim3 threads, cudaStream_t) {
      total_kernel<Op><<<many, threads, 0, stream>>>(job);
    });
  }
  pass(false);
}

template <class T>
using ElementOf = std::conditional_t<std::is_same_v<T, bool>, Boolean, T>;

}  // namespace

void cumsum(const Tensor& x, const Tensor& out, int64_t dim) {
  if (x.numel() == 0) return;
  with_any(x.dtype(), [&]<class T>(TypeTag<T>) { scan("cumsum", RunningSum<ElementOf<T>>(), x, out, dim); });
}

void running_extreme(bool largest, const Tensor& x, const Tensor& indices, int64_t dim) {
  if (x.numel() == 0) return;
  with_any(x.dtype(), [&]<class T>(TypeTag<T>) {
    scan("running_extreme", RunningExtreme<ElementOf<T>>{largest}, x, indices, dim);
  });
}

}  // namespace tessera::kernels::cuda
