// Elements at positions, read and written. Of several values for one position the last is written: each value
// is marked first as the last of its position or not, so that different threads write different elements.
#include "tensor/cuda/indexing/advanced_indexing.h"

#include <array>

#include "tensor/cuda/indexing/index.cuh"
#include "tensor/cuda/indexing/offsets.cuh"
#include "tensor/cuda/indexing/radix_sort.h"
#include "tensor/cuda/runtime/late_check.cuh"

namespace tessera::kernels::cuda {
namespace {

/// Values of an index tensor outside [-extent, extent).
struct OutsideExtent {
  IndexValues index;
  int64_t extent;
  __device__ bool operator()(int64_t i) const { return index[i] < -extent || index[i] >= extent; }
  __device__ int64_t value(int64_t i) const { return index[i]; }
};

__global__ void __launch_bounds__(threads_per_block, min_blocks)
    coordinate_kernel(OutsideExtent outside, int64_t count, bool replace, int64_t* positions) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= count) return;
  const int64_t value = outside.index[i], before = replace ? 0 : positions[i];
  positions[i] =
      before < 0 || outside(i) ? -1 : before * outside.extent + value + (value < 0 ? outside.extent : 0);
}

/// Coordinates along all dimensions of each position.
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    unravel_kernel(const int64_t* positions, int64_t count, int ndim,
                   std::array<int64_t, Shape::max_ndim> extents, int64_t* coordinates) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= count) return;
  int64_t rest = positions[i];
  for (int d = ndim - 1; d >= 0; --d) {
    coordinates[i * ndim + d] = rest % extents[d];
    rest /= extents[d];
  }
}

/// A tensor's elements around indexed dimensions: outer, positions, inner.
struct Around {
  Offsets before, at, after;
  Around(const Tensor& x, int first, int count)
      : before(Offsets::of_part(x, 0, first)),
        at(Offsets::of_part(x, first, first + count)),
        after(Offsets::of_part(x, first + count, x.ndim())) {}
  __device__ int64_t operator()(int64_t outer, int64_t position, int64_t inner) const {
    return before[outer] + at[position] + after[inner];
  }
};

/// out is contiguous (outer, n, inner).
template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    read_kernel(const T* x, Around around, const int64_t* positions, int64_t n, int64_t inner, int64_t total,
                T* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= total) return;
  const int64_t row = i / inner, position = positions[row % n];
  out[i] = position >= 0 ? x[around(row / n, position, i % inner)] : T{};
}

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    write_kernel(const T* value, Around from, const int64_t* positions, const uint8_t* is_last, int64_t n,
                 int64_t inner, int64_t total, Around to, T* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= total) return;
  const int64_t row = i / inner, number = row % n, position = positions[number];
  if (position < 0 || (is_last != nullptr && is_last[number] == 0)) return;
  out[to(row / n, position, i % inner)] = value[from(row / n, number, i % inner)];
}

/// Few positions: each is compared with those after it.
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    compare_kernel(const int64_t* positions, int64_t n, uint8_t* is_last) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= n) return;
  bool found = false;
  for (int64_t j = i + 1; j < n && !found; ++j) found = positions[j] == positions[i];
  is_last[i] = found ? 0 : 1;
}

__global__ void __launch_bounds__(threads_per_block, min_blocks)
    run_end_kernel(const uint32_t* values, const uint32_t* positions, int64_t n, uint8_t* is_last) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i < n) is_last[positions[i]] = i + 1 == n || values[i + 1] != values[i] ? 1 : 0;
}

constexpr int64_t compared_positions = 1024;

/// 1 for each position that no later one repeats; undefined for a single position.
Tensor last_of_each(const Tensor& positions, int64_t limit) {
  const int64_t n = positions.numel();
  if (n == 1) return {};
  const Tensor is_last = Tensor::empty({n}, u8, positions.device());
  uint8_t* const marks = static_cast<uint8_t*>(is_last.raw_data());
  SortedIndex sorted;
  if (n > compared_positions) sorted = sort_index("index_put_", positions, limit);
  launch("index_put_", positions.device(), n, [&](dim3 grid, dim3 block, cudaStream_t stream) {
    if (n <= compared_positions)
      compare_kernel<<<grid, block, 0, stream>>>(static_cast<const int64_t*>(positions.raw_data()), n, marks);
    else
      run_end_kernel<<<grid, block, 0, stream>>>(sorted.values, sorted.positions, n, marks);
  });
  return is_last;
}

/// Elements of 16 bytes, where `around` and the two pointers are made of such: its inner dimensions are one
/// contiguous row. The strides become those of packs.
bool take_packs(Around& around, int element_bytes, const void* x, const void* out) {
  const int64_t pack = 16 / element_bytes;
  const auto divides = [&](const Offsets& offsets) {
    for (int d = 0; d < offsets.ndim; ++d)
      if (offsets.strides[d] % pack != 0) return false;
    return true;
  };
  Offsets& row = around.after;
  const bool fits = pack > 1 && row.ndim == 1 && row.strides[0] == 1 && row.extents[0] % pack == 0 &&
                    divides(around.before) && divides(around.at) &&
                    reinterpret_cast<uintptr_t>(x) % 16 == 0 && reinterpret_cast<uintptr_t>(out) % 16 == 0;
  if (!fits) return false;
  row.extents[0] /= pack;
  for (Offsets* offsets : {&around.before, &around.at})
    for (int d = 0; d < offsets->ndim; ++d) offsets->strides[d] /= pack;
  return true;
}

template <class T>
void read_as(const Tensor& x, const Around& around, const Tensor& positions, const Tensor& out) {
  const int64_t inner = around.after.count(), n = positions.numel(),
                total = around.before.count() * n * inner;
  launch("index", out.device(), total, [&](dim3 grid, dim3 block, cudaStream_t stream) {
    read_kernel<T><<<grid, block, 0, stream>>>(static_cast<const T*>(x.raw_data()), around,
                                               static_cast<const int64_t*>(positions.raw_data()), n, inner,
                                               total, static_cast<T*>(out.raw_data()));
  });
}

}  // namespace

void add_coordinate(const char* where, int entry, const Tensor& index, int64_t extent, bool replace,
                    const Tensor& positions) {
  const OutsideExtent outside{IndexValues(index), extent};
  check_late({.where = where,
              .shape = index.shape(),
              .limit = extent,
              .kind = cuda_runtime::LateCheck::Kind::index_entry,
              .entry = entry},
             index.device(), index.numel(), outside);
  launch(where, index.device(), index.numel(), [&](dim3 grid, dim3 block, cudaStream_t stream) {
    coordinate_kernel<<<grid, block, 0, stream>>>(outside, index.numel(), replace,
                                                  static_cast<int64_t*>(positions.raw_data()));
  });
}

void unravel(const Tensor& positions, const Shape& shape, const Tensor& coordinates) {
  std::array<int64_t, Shape::max_ndim> extents{};
  for (int d = 0; d < shape.ndim(); ++d) extents[d] = shape[d];
  launch("nonzero", positions.device(), positions.numel(), [&](dim3 grid, dim3 block, cudaStream_t stream) {
    unravel_kernel<<<grid, block, 0, stream>>>(static_cast<const int64_t*>(positions.raw_data()),
                                               positions.numel(), shape.ndim(), extents,
                                               static_cast<int64_t*>(coordinates.raw_data()));
  });
}

void read_positions(const Tensor& x, int first, int count, const Tensor& positions, const Tensor& out) {
  if (out.numel() == 0) return;
  Around around(x, first, count);
  if (take_packs(around, static_cast<int>(size_of(x.dtype())), x.raw_data(), out.raw_data()))
    return read_as<uint4>(x, around, positions, out);
  by_width(x.dtype(), [&]<class T>(T) { read_as<T>(x, around, positions, out); });
}

void write_positions(const Tensor& value, const Tensor& positions, int first, int count, const Tensor& out) {
  if (value.numel() == 0) return;
  const Around to(out, first, count), from(value, first, positions.ndim());
  const Tensor is_last = last_of_each(positions, to.at.count());
  const int64_t n = positions.numel(), inner = to.after.count(), total = to.before.count() * n * inner;
  by_width(out.dtype(), [&]<class T>(T) {
    launch("index_put_", out.device(), total, [&](dim3 grid, dim3 block, cudaStream_t stream) {
      write_kernel<T><<<grid, block, 0, stream>>>(
          static_cast<const T*>(value.raw_data()), from, static_cast<const int64_t*>(positions.raw_data()),
          is_last.defined() ? static_cast<const uint8_t*>(is_last.raw_data()) : nullptr, n, inner, total, to,
          static_cast<T*>(out.raw_data()));
    });
  });
}

}  // namespace tessera::kernels::cuda
