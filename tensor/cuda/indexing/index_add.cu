// Additions by index in a fixed order: the positions are sorted by index (stably, so that those of one index
// keep their order), and a thread adds up the terms of one index in one column.
#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/indexing/index.cuh"
#include "tensor/cuda/indexing/indexing.h"
#include "tensor/cuda/indexing/radix_sort.h"
#include "tensor/cuda/runtime/launch.h"

namespace tessera::kernels::cuda {
namespace {

/// The type that terms are summed in.
template <class T>
using SumOf = std::conditional_t<std::is_floating_point_v<Computed<T>>, Computed<T>, T>;

/// A thread for each sorted position and each of the outer x inner columns; those that begin a run of equal
/// keys add it.
template <class Source, class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    add_kernel(const uint32_t* keys, const uint32_t* positions, const Source* source, AroundDim rows,
               int64_t limit, T* out) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  const int64_t columns = rows.outer * rows.inner;
  if (thread >= columns * rows.count) return;
  const int64_t first = thread / columns, column = thread % columns;
  const uint32_t key = keys[first];
  if (key >= limit || (first > 0 && keys[first - 1] == key)) return;
  const int64_t o = column / rows.inner, inner = column % rows.inner;
  SumOf<T> sum = 0;
  for (int64_t k = first; k < rows.count && keys[k] == key; ++k)
    sum += static_cast<SumOf<T>>(loaded(source[(o * rows.count + positions[k]) * rows.inner + inner]));
  T& element = out[(o * limit + key) * rows.inner + inner];
  element = stored<T>(static_cast<SumOf<T>>(loaded(element)) + sum);
}

template <class Source, class T>
void add(const Tensor& source, int64_t dim, const Tensor& index, const Tensor& out) {
  const Device device = out.device();
  const AroundDim rows(source, dim), targets(out, dim);
  if (source.numel() == 0) return;
  const SortedIndex sorted = sort_index("index_add", index, targets.count);
  launch("index_add", device, rows.outer * rows.inner * rows.count,
         [&](dim3 grid, dim3 block, cudaStream_t stream) {
           add_kernel<Source, T><<<grid, block, 0, stream>>>(
               sorted.values, sorted.positions, static_cast<const Source*>(source.raw_data()), rows,
               targets.count, static_cast<T*>(out.raw_data()));
         });
}

}  // namespace

void index_add(const Tensor& source, int64_t dim, const Tensor& index, const Tensor& out) {
  switch (source.dtype()) {
    case f64:
      return add<double, double>(source, dim, index, out);
    case f32:
      return add<float, float>(source, dim, index, out);
    case bf16:
      return out.dtype() == f32 ? add<bfloat16, float>(source, dim, index, out)
                                : add<bfloat16, bfloat16>(source, dim, index, out);
    case f16:
      return out.dtype() == f32 ? add<float16, float>(source, dim, index, out)
                                : add<float16, float16>(source, dim, index, out);
    case i64:
      return add<int64_t, int64_t>(source, dim, index, out);
    default:
      return add<int32_t, int32_t>(source, dim, index, out);
  }
}

}  // namespace tessera::kernels::cuda
