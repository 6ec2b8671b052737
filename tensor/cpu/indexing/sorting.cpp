// Sorting and running sums along one dimension, line by line; a line is sorted in a buffer.
#include "tensor/cpu/indexing/sorting.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "tensor/cpu/loops/convert.h"
#include "tensor/strided_loop.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 4096;

/// Calls `body(offset in x, offset in out)` for the start of every line along `dim`, in parallel.
template <class Body>
void for_each_line(const Tensor& x, const Tensor& out, int64_t dim, const Body& body) {
  Shape outer = x.shape();
  outer[dim] = 1;
  const StridedLoop<2> loop(outer, {&x.strides(), &out.strides()});
  const int64_t inner = loop.inner();
  parallel_for(loop.rows() * inner, 1 + grain_elements / x.shape()[dim], [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      int64_t offsets[2];
      loop.row_offsets(line / inner, offsets);
      const int64_t i = line % inner;
      body(offsets[0] + i * loop.strides[0][loop.ndim - 1], offsets[1] + i * loop.strides[1][loop.ndim - 1]);
    }
  });
}

template <class A>
struct Entry {
  A value;
  int64_t index;
};

/// Whether a comes before b: by value, with NaN above all; equal values by index, so that the order is
/// stable.
template <class A>
bool before(const Entry<A>& a, const Entry<A>& b, bool descending) {
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  const bool less = a_nan ? false : b_nan || a.value < b.value;
  const bool greater = b_nan ? false : a_nan || a.value > b.value;
  if (less || greater) return descending ? greater : less;
  return a.index < b.index;
}

template <class T>
void sort_lines(const Tensor& x, const Tensor& values, const Tensor& indices, int64_t dim, bool descending) {
  using A = accumulator_of<T>;
  const int64_t n = x.shape()[dim], k = values.shape()[dim];
  const int64_t x_step = x.strides()[dim], out_step = values.strides()[dim];
  const T* from = static_cast<const T*>(x.raw_data());
  T* to = static_cast<T*>(values.raw_data());
  int64_t* positions = indices.data<int64_t>();
  for_each_line(x, values, dim, [&](int64_t at, int64_t out) {
    std::vector<Entry<A>> line(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) line[i] = {widen<A>(from[at + i * x_step]), i};
    std::partial_sort(
        line.begin(), line.begin() + k, line.end(),
        [descending](const Entry<A>& a, const Entry<A>& b) { return before(a, b, descending); });
    for (int64_t i = 0; i < k; ++i) {
      // The value as stored, so that a NaN keeps its bits.
      to[out + i * out_step] = from[at + line[i].index * x_step];
      positions[out + i * out_step] = line[i].index;
    }
  });
}

template <class T>
void cumsum_lines(const Tensor& x, const Tensor& out, int64_t dim) {
  using Sum = std::conditional_t<std::is_floating_point_v<accumulator_of<T>>, double, int64_t>;
  using Out = std::conditional_t<std::is_floating_point_v<accumulator_of<T>>, T, int64_t>;
  const int64_t n = x.shape()[dim], x_step = x.strides()[dim], out_step = out.strides()[dim];
  const T* from = static_cast<const T*>(x.raw_data());
  Out* to = static_cast<Out*>(out.raw_data());
  for_each_line(x, out, dim, [&](int64_t at, int64_t start) {
    Sum sum = 0;
    const auto next = [&](int64_t i) { return sum += widen<Sum>(from[at + i * x_step]); };
    if constexpr (is_half<T>) {
      float block[256];  // rounded in vectors
      for (int64_t i = 0; i < n; i += std::ssize(block)) {
        const int64_t count = std::min<int64_t>(std::ssize(block), n - i);
        for (int64_t j = 0; j < count; ++j) block[j] = static_cast<float>(next(i + j));
        narrow_row(block, out_step, count, to + start + i * out_step);
      }
    } else {
      for (int64_t i = 0; i < n; ++i) to[start + i * out_step] = narrow<Out>(next(i));
    }
  });
}

template <class T>
void running_extreme_lines(bool largest, const Tensor& x, const Tensor& indices, int64_t dim) {
  using A = accumulator_of<T>;
  const int64_t n = x.shape()[dim], x_step = x.strides()[dim], out_step = indices.strides()[dim];
  const T* from = static_cast<const T*>(x.raw_data());
  int64_t* to = indices.data<int64_t>();
  for_each_line(x, indices, dim, [&](int64_t at, int64_t start) {
    A best = widen<A>(from[at]);
    int64_t best_index = 0;
    for (int64_t i = 0; i < n; ++i) {
      const A value = widen<A>(from[at + i * x_step]);
      const bool better = largest ? value >= best : value <= best;
      if (better || value != value) {
        best = value;
        best_index = i;
      }
      to[start + i * out_step] = best_index;
    }
  });
}

}  // namespace

void sort(const Tensor& x, const Tensor& values, const Tensor& indices, int64_t dim, bool descending) {
  if (values.numel() == 0) return;
  with_any(x.dtype(), [&]<class T>(TypeTag<T>) { sort_lines<T>(x, values, indices, dim, descending); });
}

void cumsum(const Tensor& x, const Tensor& out, int64_t dim) {
  if (x.numel() == 0) return;
  with_any(x.dtype(), [&]<class T>(TypeTag<T>) { cumsum_lines<T>(x, out, dim); });
}

void running_extreme(bool largest, const Tensor& x, const Tensor& indices, int64_t dim) {
  if (x.numel() == 0) return;
  with_any(x.dtype(), [&]<class T>(TypeTag<T>) { running_extreme_lines<T>(largest, x, indices, dim); });
}

}  // namespace tessera::kernels::cpu
