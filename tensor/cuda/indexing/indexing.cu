#include "tensor/cuda/indexing/indexing.h"

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/cuda/indexing/index.cuh"
#include "tensor/cuda/runtime/late_check.cuh"

namespace tessera::kernels::cuda {
namespace {

/// Indices outside [0, limit).
struct OutsideLimit {
  IndexValues index;
  int64_t limit;
  __device__ bool operator()(int64_t i) const { return index[i] < 0 || index[i] >= limit; }
  __device__ int64_t value(int64_t i) const { return index[i]; }
};

/// Targets outside [0, classes) that are not ignored.
struct NoClass {
  const int64_t* targets;
  int64_t classes, ignored;  ///< one of the classes where none is ignored
  __device__ bool operator()(int64_t i) const {
    return targets[i] != ignored && (targets[i] < 0 || targets[i] >= classes);
  }
  __device__ int64_t value(int64_t i) const { return targets[i]; }
};

/// Element i of the (outer, count, inner) rows of `out`, from the table.
template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    select_kernel(const T* x, AroundDim table, AroundDim rows, IndexValues index, T* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= rows.outer * rows.count * rows.inner) return;
  const int64_t inner = i % rows.inner, row = i / rows.inner;
  const int64_t id = index[row % rows.count];
  out[i] =
      id >= 0 && id < table.count ? x[(row / rows.count * table.count + id) * table.inner + inner] : T(0);
}

/// Where the elements of a contiguous index lie in a strided tensor.
struct IndexedLoop {
  int ndim;
  int64_t extents[Shape::max_ndim];  ///< of the index
  int64_t strides[Shape::max_ndim];  ///< of the tensor; 0 along the indexed dimension
  int64_t step, limit;               ///< of that dimension

  IndexedLoop(const Tensor& index, int64_t dim, const Tensor& strided)
      : ndim(index.ndim()), extents{}, strides{}, step(strided.strides()[dim]), limit(strided.shape()[dim]) {
    for (int d = 0; d < ndim; ++d) {
      extents[d] = index.shape()[d];
      strides[d] = d == dim ? 0 : strided.strides()[d];
    }
  }
  __device__ int64_t offset(int64_t element, int64_t id) const {
    int64_t offset = id * step;
    for (int d = ndim - 1; d >= 0; --d) {
      offset += element % extents[d] * strides[d];
      element /= extents[d];
    }
    return offset;
  }
};

template <class T>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    gather_kernel(const T* x, IndexedLoop loop, IndexValues index, int64_t count, T* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i >= count) return;
  const int64_t id = index[i];
  out[i] = id >= 0 && id < loop.limit ? x[loop.offset(i, id)] : T(0);
}

struct Replace {
  template <class T>
  __device__ T operator()(T, T value) const {
    return value;
  }
};
struct Sum {
  template <class T>
  __device__ T operator()(T element, T value) const {
    return element + value;
  }
};
struct Product {
  template <class T>
  __device__ T operator()(T element, T value) const {
    return element * value;
  }
};

/// A thread takes a row of the index, in order: rows write different elements, and the bits do not depend on
/// time.
template <class T, class Combine>
__global__ void __launch_bounds__(threads_per_block, min_blocks)
    scatter_kernel(const T* source, IndexedLoop loop, IndexValues index, int64_t rows, int64_t columns,
                   Combine combine, T* out) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (row >= rows) return;
  const int64_t base = loop.offset(row * columns, 0);  // the indexed dimension is the last one
  for (int64_t j = 0; j < columns; ++j) {
    const int64_t i = row * columns + j, id = index[i];
    if (id < 0 || id >= loop.limit) continue;
    T& element = out[base + id * loop.step];
    if constexpr (std::is_same_v<Combine, Replace>)
      element = source[i];
    else
      element = stored<T>(combine(loaded(element), loaded(source[i])));
  }
}

template <class T, class Combine>
void scatter_as(const char* name, const Tensor& source, const Tensor& index, const Tensor& out) {
  const int last = index.ndim() - 1;
  const int64_t columns = index.shape()[last];
  if (index.numel() == 0) return;
  const int64_t rows = index.numel() / columns;
  launch(name, out.device(), rows, [&](dim3 grid, dim3 block, cudaStream_t stream) {
    scatter_kernel<T><<<grid, block, 0, stream>>>(static_cast<const T*>(source.raw_data()),
                                                  IndexedLoop(index, last, out), IndexValues(index), rows,
                                                  columns, Combine(), static_cast<T*>(out.raw_data()));
  });
}

template <class Combine>
void scatter_by_dtype(const char* name, const Tensor& source, const Tensor& index, const Tensor& out) {
  switch (out.dtype()) {
    case f64:
      return scatter_as<double, Combine>(name, source, index, out);
    case f32:
      return scatter_as<float, Combine>(name, source, index, out);
    case bf16:
      return scatter_as<bfloat16, Combine>(name, source, index, out);
    case f16:
      return scatter_as<float16, Combine>(name, source, index, out);
    case i64:
      return scatter_as<int64_t, Combine>(name, source, index, out);
    default:
      return scatter_as<int32_t, Combine>(name, source, index, out);
  }
}

}  // namespace

void check_indices(const char* where, const Tensor& index, int64_t limit) {
  check_late({where, index.shape(), limit}, index.device(), index.numel(),
             OutsideLimit{IndexValues(index), limit});
}

void check_class_targets(const char* where, const Tensor& targets, int64_t classes,
                         std::optional<int64_t> ignored) {
  check_late({.where = where,
              .shape = targets.shape(),
              .limit = classes,
              .ignored = ignored,
              .kind = cuda_runtime::LateCheck::Kind::targets},
             targets.device(), targets.numel(),
             NoClass{static_cast<const int64_t*>(targets.raw_data()), classes, ignored.value_or(0)});
}

void index_select(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& out) {
  by_width(x.dtype(), [&]<class T>(T) {
    launch("index_select", out.device(), out.numel(), [&](dim3 grid, dim3 block, cudaStream_t stream) {
      select_kernel<T><<<grid, block, 0, stream>>>(static_cast<const T*>(x.raw_data()), AroundDim(x, dim),
                                                   AroundDim(out, dim), IndexValues(index),
                                                   static_cast<T*>(out.raw_data()));
    });
  });
}

void gather(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& out) {
  by_width(x.dtype(), [&]<class T>(T) {
    launch("gather", out.device(), out.numel(), [&](dim3 grid, dim3 block, cudaStream_t stream) {
      gather_kernel<T><<<grid, block, 0, stream>>>(static_cast<const T*>(x.raw_data()),
                                                   IndexedLoop(index, dim, x), IndexValues(index),
                                                   out.numel(), static_cast<T*>(out.raw_data()));
    });
  });
}

void scatter(const Tensor& source, const Tensor& index, const Tensor& out) {
  by_width(out.dtype(), [&]<class T>(T) { scatter_as<T, Replace>("scatter", source, index, out); });
}

void scatter_add(const Tensor& source, const Tensor& index, const Tensor& out) {
  scatter_by_dtype<Sum>("scatter_add", source, index, out);
}

void scatter_multiply(const Tensor& source, const Tensor& index, const Tensor& out) {
  scatter_by_dtype<Product>("scatter_multiply", source, index, out);
}

}  // namespace tessera::kernels::cuda
