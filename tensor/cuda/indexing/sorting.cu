// Sorting along one dimension. Lines of up to `tile_limit` elements are sorted in shared memory by a bitonic
// network over (key, position), which is stable since positions differ. The first few of longer lines come
// from a tournament: each tile's first few go on to the next round. Longer lines are sorted whole by radix,
// first by key and then, stably, by line.
#include "tensor/cuda/indexing/sorting.h"

#include <algorithm>
#include <bit>

#include "tensor/cuda/indexing/offsets.cuh"
#include "tensor/cuda/indexing/radix_sort.h"
#include "tensor/cuda/indexing/sort_key.cuh"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

constexpr uint32_t tile_limit = 2048;
/// Short lines share a tile of so many elements.
constexpr uint32_t shared_tile = 512;
/// The most that a tile passes on to the next round: an eighth.
constexpr int64_t tournament_limit = tile_limit / 8;

/// Where the elements of lines come from, and the first `kept` of each go.
template <class T>
struct Lines {
  using Key = SortKey<T>;
  const T* x;
  T* values;
  int64_t* indices;
  Offsets from, to;
  int64_t step, out_step;
  int64_t count, n, kept;
  bool descending;

  __device__ void write(int64_t line, int64_t place, int64_t position) const {
    const int64_t at = to[line] + place * out_step;
    values[at] = x[from[line] + position * step];  // as stored, so that a NaN keeps its bits
    indices[at] = position;
  }
};

/// One round over tiles of lines: of x itself or, where `keys` is set, of those that the last round kept.
template <class T>
struct Round {
  using Key = SortKey<T>;
  const Key* keys;
  const uint32_t* positions;
  uint32_t n;      ///< elements of a line
  uint32_t tiles;  ///< of a line
  uint32_t width;  ///< of a tile, a power of two
  uint32_t lines_per_block;
  Key* kept_keys;  ///< null in the last round
  uint32_t* kept_positions;
};

/// Sorts `elements` (key, position) pairs in shared memory, each `width` of them by themselves.
template <class Key>
__device__ void sort_tile(Key* keys, uint32_t* positions, uint32_t elements, uint32_t width) {
  for (uint32_t size = 2; size <= width; size *= 2) {
    for (uint32_t stride = size / 2; stride > 0; stride /= 2) {
      for (uint32_t pair = threadIdx.x; pair < elements / 2; pair += blockDim.x) {
        const uint32_t low = 2 * pair - (pair & (stride - 1)), high = low + stride;
        const bool rises = (low & size) == 0 || size == width;
        const bool in_order =
            keys[low] < keys[high] || (keys[low] == keys[high] && positions[low] < positions[high]);
        if (in_order != rises) {
          const Key key = keys[low];
          const uint32_t position = positions[low];
          keys[low] = keys[high], positions[low] = positions[high];
          keys[high] = key, positions[high] = position;
        }
      }
      __syncthreads();
    }
  }
}

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks) tile_kernel(Lines<T> lines, Round<T> round) {
  using Key = SortKey<T>;
  __shared__ Key keys[tile_limit];
  __shared__ uint32_t positions[tile_limit];
  const uint32_t elements = round.width * round.lines_per_block, tile = blockIdx.x % round.tiles;
  const int64_t first_line = static_cast<int64_t>(blockIdx.x / round.tiles) * round.lines_per_block;
  for (uint32_t i = threadIdx.x; i < elements; i += blockDim.x) {
    // Neighbouring threads read neighbours in memory: of a line, or of different lines.
    const bool by_line = lines.step == 1 || round.lines_per_block == 1;
    const uint32_t own = by_line ? i / round.width : i % round.lines_per_block;
    const uint32_t element = by_line ? i % round.width : i / round.lines_per_block;
    const int64_t line = first_line + own;
    const uint32_t at = tile * round.width + element, slot = own * round.width + element;
    const bool exists = line < lines.count && at < round.n;
    if (!exists)
      keys[slot] = static_cast<Key>(~uint64_t{0}), positions[slot] = UINT32_MAX;  // behind all others
    else if (round.keys != nullptr)
      keys[slot] = round.keys[line * round.n + at], positions[slot] = round.positions[line * round.n + at];
    else
      keys[slot] = key_of(lines.x[lines.from[line] + at * lines.step], lines.descending),
      positions[slot] = at;
  }
  __syncthreads();
  sort_tile(keys, positions, elements, round.width);
  const uint32_t kept = static_cast<uint32_t>(lines.kept);
  for (uint32_t i = threadIdx.x; i < kept * round.lines_per_block; i += blockDim.x) {
    const uint32_t own = i / kept, place = i % kept, slot = own * round.width + place;
    const int64_t line = first_line + own;
    if (line >= lines.count) return;
    if (round.kept_keys == nullptr) {
      lines.write(line, place, positions[slot]);
    } else {
      const int64_t to = (line * round.tiles + tile) * kept + place;
      round.kept_keys[to] = keys[slot], round.kept_positions[to] = positions[slot];
    }
  }
}

/// Rounds until one tile has all that is left of a line.
template <class T>
void sort_tiles(const char* name, const Lines<T>& lines, Device device) {
  using Key = SortKey<T>;
  const cuda_runtime::DeviceGuard guard(device);
  const cudaStream_t stream = cuda_runtime::current_stream(device);
  Tensor keys, positions;  // of the last round
  int64_t left = lines.n;
  for (bool is_last = false; !is_last;) {
    Round<T> round{};
    if (keys.defined()) {
      round.keys = static_cast<const Key*>(keys.raw_data());
      round.positions = static_cast<const uint32_t*>(positions.raw_data());
    }
    round.n = static_cast<uint32_t>(left);
    round.width = std::min(std::bit_ceil(round.n), tile_limit);
    round.tiles = (round.n + round.width - 1) / round.width;
    is_last = round.tiles == 1;
    round.lines_per_block = is_last ? std::max(1u, shared_tile / round.width) : 1;
    Tensor kept_keys, kept_positions;
    if (!is_last) {
      left = int64_t{round.tiles} * lines.kept;
      const Shape kept{lines.count, left};
      kept_keys = Tensor::empty(kept, sizeof(Key) == 8 ? i64 : i32, device);
      kept_positions = Tensor::empty(kept, i32, device);
      round.kept_keys = static_cast<Key*>(kept_keys.raw_data());
      round.kept_positions = static_cast<uint32_t*>(kept_positions.raw_data());
    }
    const int64_t blocks = (lines.count + round.lines_per_block - 1) / round.lines_per_block * round.tiles;
    tile_kernel<T><<<static_cast<unsigned>(blocks), threads_per_block, 0, stream>>>(lines, round);
    cuda_runtime::check_launch(name);
    keys = kept_keys, positions = kept_positions;
  }
}

/// Keys of `lines` lines from `first` on, one line after another.
template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    key_kernel(Lines<T> lines, int64_t first, int64_t count, SortKey<T>* keys, uint32_t* places) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= count) return;
  keys[i] = key_of(lines.x[lines.from[first + i / lines.n] + i % lines.n * lines.step], lines.descending);
  places[i] = static_cast<uint32_t>(i);
}

__global__ void __launch_bounds__(threads_per_block, min_blocks)
    line_kernel(const uint32_t* places, int64_t count, uint32_t n, uint32_t* line_of) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i < count) line_of[i] = places[i] / n;
}

/// The first `kept` places of each line, in order.
template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    write_kernel(Lines<T> lines, int64_t first, int64_t count, const uint32_t* places) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= count) return;
  const int64_t line = i / lines.kept, place = i % lines.kept;
  lines.write(first + line, place, places[line * lines.n + place] - line * lines.n);
}

/// Some lines, whole.
template <class T>
void sort_by_radix(const char* name, const Lines<T>& lines, int64_t first, int64_t some, Device device) {
  using Key = SortKey<T>;
  const int64_t count = some * lines.n;
  const Shape all(count);
  const auto numbers = [&] { return Tensor::empty(all, i32, device); };
  const auto data = [](const Tensor& tensor) { return static_cast<uint32_t*>(tensor.raw_data()); };
  Tensor places = numbers(), sorted = numbers();
  {
    const Shape both{2, count};
    const Tensor keys = Tensor::empty(both, sizeof(Key) == 8 ? i64 : i32, device);
    Key* const unsorted = static_cast<Key*>(keys.raw_data());
    launch(name, device, count, [&](dim3 grid, dim3 block, cudaStream_t stream) {
      key_kernel<T><<<grid, block, 0, stream>>>(lines, first, count, unsorted, data(places));
    });
    radix_sort(name, device, unsorted, unsorted + count, data(places), data(sorted), count, key_bits<T>);
  }
  if (some > 1) {
    const Tensor line_of = numbers(), sorted_lines = numbers();
    launch(name, device, count, [&](dim3 grid, dim3 block, cudaStream_t stream) {
      line_kernel<<<grid, block, 0, stream>>>(data(sorted), count, static_cast<uint32_t>(lines.n),
                                              data(line_of));
    });
    radix_sort(name, device, data(line_of), data(sorted_lines), data(sorted), data(places), count,
               bits_for(some - 1));
    std::swap(places, sorted);
  }
  launch(name, device, some * lines.kept, [&](dim3 grid, dim3 block, cudaStream_t stream) {
    write_kernel<T><<<grid, block, 0, stream>>>(lines, first, some * lines.kept, data(sorted));
  });
}

template <class T>
void sort_lines(const char* name, const Tensor& x, const Tensor& values, const Tensor& indices, int64_t dim,
                bool descending) {
  const Lines<T> lines{static_cast<const T*>(x.raw_data()),
                       static_cast<T*>(values.raw_data()),
                       static_cast<int64_t*>(indices.raw_data()),
                       Offsets::of_lines(x, dim),
                       Offsets::of_lines(values, dim),
                       x.strides()[dim],
                       values.strides()[dim],
                       values.numel() / values.shape()[dim],
                       x.shape()[dim],
                       values.shape()[dim],
                       descending};
  constexpr int64_t most = int64_t{1} << 30;  // elements that are sorted at once
  const Device device = x.device();
  require<ValueError>(lines.n <= most, name, " on ", device, ": expected lines of at most ", most,
                      " elements, got ", lines.n);
  if (lines.n <= tile_limit || lines.kept <= tournament_limit) return sort_tiles(name, lines, device);
  const int64_t at_once = most / lines.n;
  for (int64_t first = 0; first < lines.count; first += at_once)
    sort_by_radix(name, lines, first, std::min(at_once, lines.count - first), device);
}

}  // namespace

void sort(const Tensor& x, const Tensor& values, const Tensor& indices, int64_t dim, bool descending) {
  if (values.numel() == 0) return;
  with_any(x.dtype(), [&]<class T>(TypeTag<T>) {
    using Element = std::conditional_t<std::is_same_v<T, bool>, Boolean, T>;
    sort_lines<Element>("sort", x, values, indices, dim, descending);
  });
}

}  // namespace tessera::kernels::cuda
