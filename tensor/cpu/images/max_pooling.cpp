// Max pooling. Forward reads every window of a plane, which is in the cache, and x from memory once; backward
// adds into one plane after the other. Threads divide the planes.
#include "tensor/cpu/images/max_pooling.h"

#include <algorithm>
#include <limits>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 8192;

/// The first largest element of one window, or its last NaN, as PyTorch has it.
template <class A>
struct Largest {
  A value = -std::numeric_limits<A>::infinity();
  int64_t index;
  explicit Largest(int64_t first) : index(first) {}
  void take(A candidate, int64_t at) {
    if (candidate > value || candidate != candidate) value = candidate, index = at;
  }
};

template <class A, class T>
Largest<A> largest_in(const T* plane, const ops::WindowAxes& axes, int64_t d, int64_t h, int64_t w) {
  const auto& [depth, height, width] = axes;
  const int64_t w0 = width.begin[w], w1 = width.end[w];
  Largest<A> largest((depth.begin[d] * height.extent + height.begin[h]) * width.extent + w0);
  for (int64_t z = depth.begin[d]; z < depth.end[d]; z += depth.step)
    for (int64_t y = height.begin[h]; y < height.end[h]; y += height.step) {
      const int64_t row = (z * height.extent + y) * width.extent;
      for (int64_t x = w0; x < w1; x += width.step) largest.take(widen<A>(plane[row + x]), row + x);
    }
  return largest;
}

template <class T>
void pool(const T* x, const ops::WindowAxes& axes, int64_t planes, T* values, int64_t* indices) {
  using A = accumulator_of<T>;
  const auto& [depth, height, width] = axes;
  const int64_t plane = depth.extent * height.extent * width.extent;
  const int64_t rows = depth.windows() * height.windows(), row = width.windows();
  parallel_for(planes * rows, 1 + grain_elements / (row * 9), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t w = 0; w < row; ++w) {
        const int64_t in_plane = r % rows;
        const Largest<A> found = largest_in<A>(x + r / rows * plane, axes, in_plane / height.windows(),
                                               in_plane % height.windows(), w);
        values[r * row + w] = narrow<T>(found.value);
        indices[r * row + w] = found.index;
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
