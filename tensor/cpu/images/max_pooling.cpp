// Max pooling. For a row of windows the rows of x that it reads are compared column by column, in vectors;
// then the columns of each window. A plane is in the cache, so x is read from memory once. Backward adds into
// one plane after the other.
#include "tensor/cpu/images/max_pooling.h"

#include <algorithm>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 8192;

/// Of each column, the largest element among the rows that a row of windows reads, and its row in the plane.
template <class A>
struct Columns {
  A* value;
  int32_t* row;
};

template <class A>
void take_row(const A* x, int64_t n, int32_t row, Columns<A> best) {
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) {
    const bool takes = (x[i] > best.value[i]) | (x[i] != x[i]);  // of several NaNs the last one
    best.value[i] = takes ? x[i] : best.value[i];
    best.row[i] = takes ? row : best.row[i];
  }
}

/// Whether a candidate comes before the best so far: a larger value, the first of equal ones, the last NaN.
template <class A>
bool precedes(A candidate, int64_t at, A best, int64_t best_at) {
  if (candidate != candidate) return best == best || at > best_at;
  return candidate > best || (candidate == best && at < best_at);
}

template <class T>
void pool(const T* x, const ops::WindowAxes& axes, int64_t planes, T* values, int64_t* indices) {
  using A = accumulator_of<T>;
  const auto& [depth, height, width] = axes;
  const int64_t n = width.extent, plane = depth.extent * height.extent * n;
  const int64_t rows = depth.windows() * height.windows(), count = width.windows();
  parallel_for(planes * rows, 1 + grain_elements / (3 * n), [&](int64_t begin, int64_t end) {
    const Scratch<A> memory(2 * n);
    const Scratch<int32_t> row_memory(n);
    const Columns<A> best{memory.get(), row_memory.get()};
    for (int64_t r = begin; r < end; ++r) {
      const T* const source = x + r / rows * plane;
      const int64_t d = r % rows / height.windows(), h = r % rows % height.windows();
      bool is_first = true;
      for (int64_t z = depth.begin[d]; z < depth.end[d]; z += depth.step)
        for (int64_t y = height.begin[h]; y < height.end[h]; y += height.step, is_first = false) {
          const int64_t row = z * height.extent + y;
          if (is_first) {
            widen_contiguous(source + row * n, n, best.value);
            std::fill_n(best.row, n, static_cast<int32_t>(row));
          } else if constexpr (std::is_same_v<T, A>) {
            take_row(source + row * n, n, static_cast<int32_t>(row), best);
          } else {
            widen_contiguous(source + row * n, n, best.value + n);
            take_row(best.value + n, n, static_cast<int32_t>(row), best);
          }
        }
      for (int64_t w = 0; w < count; ++w) {
        int64_t column = width.begin[w], at = best.row[column] * n + column;
        A largest = best.value[column];
        for (column += width.step; column < width.end[w]; column += width.step)
          if (const int64_t place = best.row[column] * n + column;
              precedes(best.value[column], place, largest, at))
            largest = best.value[column], at = place;
        values[r * count + w] = narrow<T>(largest);
        indices[r * count + w] = at;
      }
    }
  });
}

template <class T>
void add_at_indices(const T* dy, const int64_t* indices, int64_t planes, int64_t windows, int64_t plane,
                    T* dx) {
  using A = accumulator_of<T>;
  parallel_for(planes, 1 + grain_elements / (windows + plane), [&](int64_t begin, int64_t end) {
    const Scratch<A> wide(std::is_same_v<T, A> ? 0 : plane);
    for (int64_t p = begin; p < end; ++p) {
      A* sums;
      if constexpr (std::is_same_v<T, A>)
        sums = dx + p * plane;
      else
        sums = wide.get();
      std::fill_n(sums, plane, A(0));
      for (int64_t o = p * windows; o < (p + 1) * windows; ++o) sums[indices[o]] += widen<A>(dy[o]);
      if constexpr (!std::is_same_v<T, A>) narrow_contiguous(sums, plane, dx + p * plane);
    }
  });
}

}  // namespace

void max_pool(const Tensor& x, const ops::WindowAxes& axes, const Tensor& values, const Tensor& indices) {
  if (values.numel() == 0) return;
  const int64_t planes = x.numel() / (axes[0].extent * axes[1].extent * axes[2].extent);
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    pool(static_cast<const T*>(x.raw_data()), axes, planes, static_cast<T*>(values.raw_data()),
         static_cast<int64_t*>(indices.raw_data()));
  });
}

void max_pool_backward(const Tensor& dy, const Tensor& indices, int64_t planes, const Tensor& dx) {
  if (dx.numel() == 0) return;
  with_floating(dy.dtype(), [&]<class T>(TypeTag<T>) {
    add_at_indices(static_cast<const T*>(dy.raw_data()), static_cast<const int64_t*>(indices.raw_data()),
                   planes, dy.numel() / planes, dx.numel() / planes, static_cast<T*>(dx.raw_data()));
  });
}

}  // namespace tessera::kernels::cpu
