// Bags of a table's rows. A thread takes one column of one bag, and adds the rows in the order of the ids:
// the sums are the CPU's. Neighbouring threads take neighbouring columns.
#include "tensor/cuda/indexing/embedding_bag.h"

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/indexing/index.cuh"
#include "tensor/cuda/runtime/late_check.cuh"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

using cuda_runtime::LateCheck;

/// Offsets that do not begin with 0, fall, or pass the number of ids.
struct OutOfOrder {
  const int64_t* offsets;
  int64_t ids;
  __device__ bool operator()(int64_t b) const {
    const int64_t least = b > 0 ? offsets[b - 1] : 0, most = b > 0 ? ids : 0;
    return offsets[b] < least || offsets[b] > most;
  }
  __device__ int64_t value(int64_t b) const { return offsets[b]; }
};

/// A last offset that is not the number of ids.
struct LastOffset {
  const int64_t* last;
  int64_t ids;
  __device__ bool operator()(int64_t) const { return *last != ids; }
  __device__ int64_t value(int64_t) const { return *last; }
};

__global__ void __launch_bounds__(threads_per_block, min_blocks)
    bounds_kernel(const int64_t* offsets, int64_t bags, int64_t ids, int64_t* bounds) {
  const int64_t b = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (b < bags)
    bounds[b] = min(max(offsets[b], int64_t{0}), ids);
  else if (b == bags)
    bounds[b] = ids;
}

/// The last bag that begins at the id or before it.
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    bag_kernel(const int64_t* bounds, int64_t bags, int64_t ids, int64_t* bag_of) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (n >= ids) return;
  int64_t low = 0, high = bags;  // bounds[low] <= n < bounds[high]
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (bounds[middle] <= n ? low : high) = middle;
  }
  bag_of[n] = low;
}

/// The operands of both kernels.
template <class T>
struct Bags {
  IndexValues ids;
  const T *weight, *factors;
  const int64_t* bounds;
  int64_t count, rows, width;
};

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks) sum_kernel(Bags<T> bags, T* out) {
  using A = Computed<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= bags.count * bags.width) return;
  const int64_t bag = i / bags.width, column = i % bags.width, end = bags.bounds[bag + 1];
  A sum = 0;
  for (int64_t n = bags.bounds[bag]; n < end; ++n) {
    const int64_t id = bags.ids[n];
    if (id < 0 || id >= bags.rows) continue;
    const A scale = bags.factors != nullptr ? loaded(bags.factors[n]) : A(1);
    sum += scale * loaded(bags.weight[id * bags.width + column]);
  }
  out[i] = stored<T>(sum);
}

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks) max_kernel(Bags<T> bags, int64_t* out) {
  using A = Computed<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= bags.count * bags.width) return;
  const int64_t bag = i / bags.width, column = i % bags.width, end = bags.bounds[bag + 1];
  int64_t best = bags.rows;  // none
  A largest = 0;
  for (int64_t n = bags.bounds[bag]; n < end; ++n) {
    const int64_t id = bags.ids[n];
    if (id < 0 || id >= bags.rows) continue;
    const A value = loaded(bags.weight[id * bags.width + column]);
    if (best == bags.rows || value > largest) best = id, largest = value;
  }
  out[i] = best;
}

template <class T>
Bags<T> bags_for(const Tensor& ids, const Tensor& weight, const Tensor& bounds, const Tensor& factors) {
  return {IndexValues(ids),
          static_cast<const T*>(weight.raw_data()),
          factors.defined() ? static_cast<const T*>(factors.raw_data()) : nullptr,
          static_cast<const int64_t*>(bounds.raw_data()),
          bounds.numel() - 1,
          weight.size(0),
          weight.size(1)};
}

}  // namespace

void bag_bounds(const Tensor& offsets, int64_t ids, const Tensor& bounds) {
  const int64_t bags = offsets.numel();
  const auto* given = static_cast<const int64_t*>(offsets.raw_data());
  const Device device = bounds.device();
  check_late(
      {.where = "embedding_bag", .shape = offsets.shape(), .limit = ids, .kind = LateCheck::Kind::offsets},
      device, bags, OutOfOrder{given, ids});
  launch("embedding_bag", device, bags + 1, [&](dim3 grid, dim3 block, cudaStream_t stream) {
    bounds_kernel<<<grid, block, 0, stream>>>(given, bags, ids, static_cast<int64_t*>(bounds.raw_data()));
  });
}

void check_last_offset(const Tensor& offsets, int64_t ids) {
  const auto* last = static_cast<const int64_t*>(offsets.raw_data()) + offsets.numel() - 1;
  check_late({.where = "embedding_bag", .shape = {1}, .limit = ids, .kind = LateCheck::Kind::last_offset},
             offsets.device(), 1, LastOffset{last, ids});
}

void bag_of_each_id(const Tensor& bounds, const Tensor& bags) {
  launch("embedding_bag", bags.device(), bags.numel(), [&](dim3 grid, dim3 block, cudaStream_t stream) {
    bag_kernel<<<grid, block, 0, stream>>>(static_cast<const int64_t*>(bounds.raw_data()), bounds.numel() - 1,
                                           bags.numel(), static_cast<int64_t*>(bags.raw_data()));
  });
}

void embedding_bag(const Tensor& ids, const Tensor& weight, const Tensor& bounds, const Tensor& factors,
                   const Tensor& out) {
  with_floating(weight.dtype(), [&]<class T>(TypeTag<T>) {
    launch("embedding_bag", out.device(), out.numel(), [&](dim3 grid, dim3 block, cudaStream_t stream) {
      sum_kernel<T><<<grid, block, 0, stream>>>(bags_for<T>(ids, weight, bounds, factors),
                                                static_cast<T*>(out.raw_data()));
    });
  });
}

void embedding_bag_max_rows(const Tensor& ids, const Tensor& weight, const Tensor& bounds,
                            const Tensor& rows) {
  with_floating(weight.dtype(), [&]<class T>(TypeTag<T>) {
    launch("embedding_bag", rows.device(), rows.numel(), [&](dim3 grid, dim3 block, cudaStream_t stream) {
      max_kernel<T><<<grid, block, 0, stream>>>(bags_for<T>(ids, weight, bounds, Tensor()),
                                                static_cast<int64_t*>(rows.raw_data()));
    });
  });
}

}  // namespace tessera::kernels::cuda
