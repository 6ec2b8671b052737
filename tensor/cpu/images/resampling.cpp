// A separable linear map of planes. For a row of the result the rows of x that it reads are added up,
// weighted, over whole vectors; then the elements of that sum along the width. Backward is the transpose:
// elements of dy are spread over a row, and the row is added, weighted, to the rows of dx. Sums run in a
// fixed order.
#include "tensor/cpu/images/resampling.h"

#include <algorithm>

#include "tensor/cpu/isa.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 8192;

struct Sizes {
  int64_t height, width, plane;         // of x
  int64_t out_height, out_width, rows;  // of y, rows in a plane
  explicit Sizes(const ops::ResamplingAxes& axes)
      : height(axes[1].extent),
        width(axes[2].extent),
        plane(axes[0].extent * height * width),
        out_height(axes[1].results()),
        out_width(axes[2].results()),
        rows(axes[0].results() * out_height) {}
};

/// Calls visit(row of the plane of x, weight) for every row of x that row r of a plane of y reads.
template <class Visit>
void for_each_row(const ops::ResamplingAxes& axes, const Sizes& sizes, int64_t r, const Visit& visit) {
  const auto& [depth, height, width] = axes;
  const int64_t d = r / sizes.out_height, h = r % sizes.out_height;
  for (int64_t i = depth.first[d]; i < depth.first[d + 1]; ++i)
    for (int64_t j = height.first[h]; j < height.first[h + 1]; ++j)
      visit(depth.indices[i] * sizes.height + height.indices[j], depth.weights[i] * height.weights[j]);
}

template <class A>
void add_weighted(const A* x, int64_t n, A weight, A* sum) {
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) sum[i] += weight * x[i];
}

template <class T>
void forward(const T* x, const ops::ResamplingAxes& axes, int64_t planes, T* y) {
  using A = accumulator_of<T>;
  const Sizes sizes(axes);
  const ops::ResamplingAxis& width = axes[2];
  const std::vector<A> weights(width.weights.begin(), width.weights.end());
  parallel_for(planes * sizes.rows, 1 + grain_elements / (sizes.width + sizes.out_width),
               [&](int64_t begin, int64_t end) {
                 const Scratch<A> memory(2 * sizes.width);
                 A *const sum = memory.get(), *const wide = sum + sizes.width;
                 for (int64_t r = begin; r < end; ++r) {
                   const T* const plane = x + r / sizes.rows * sizes.plane;
                   std::fill_n(sum, sizes.width, A(0));
                   for_each_row(axes, sizes, r % sizes.rows, [&](int64_t row, double weight) {
                     const A* values;
                     if constexpr (std::is_same_v<T, A>)
                       values = plane + row * sizes.width;
                     else
                       widen_contiguous(plane + row * sizes.width, sizes.width, wide), values = wide;
                     add_weighted(values, sizes.width, static_cast<A>(weight), sum);
                   });
                   for (int64_t o = 0; o < sizes.out_width; ++o) {
                     A value = 0;
                     for (int64_t t = width.first[o]; t < width.first[o + 1]; ++t)
                       value += weights[t] * sum[width.indices[t]];
                     y[r * sizes.out_width + o] = narrow<T>(value);
                   }
                 }
               });
}

template <class T>
void backward(const T* dy, const ops::ResamplingAxes& axes, int64_t planes, T* dx) {
  using A = accumulator_of<T>;
  const Sizes sizes(axes);
  const ops::ResamplingAxis& width = axes[2];
  const std::vector<A> weights(width.weights.begin(), width.weights.end());
  parallel_for(planes, 1 + grain_elements / (sizes.plane + sizes.rows * sizes.out_width),
               [&](int64_t begin, int64_t end) {
                 const Scratch<A> memory(sizes.width + (std::is_same_v<T, A> ? 0 : sizes.plane));
                 A* const spread = memory.get();
                 for (int64_t p = begin; p < end; ++p) {
                   A* sums;
                   if constexpr (std::is_same_v<T, A>)
                     sums = dx + p * sizes.plane;
                   else
                     sums = spread + sizes.width;
                   std::fill_n(sums, sizes.plane, A(0));
                   for (int64_t r = 0; r < sizes.rows; ++r) {
                     const T* const row = dy + (p * sizes.rows + r) * sizes.out_width;
                     std::fill_n(spread, sizes.width, A(0));
                     for (int64_t o = 0; o < sizes.out_width; ++o)
                       for (int64_t t = width.first[o]; t < width.first[o + 1]; ++t)
                         spread[width.indices[t]] += weights[t] * widen<A>(row[o]);
                     for_each_row(axes, sizes, r, [&](int64_t target, double weight) {
                       add_weighted<A>(spread, sizes.width, static_cast<A>(weight),
                                       sums + target * sizes.width);
                     });
                   }
                   if constexpr (!std::is_same_v<T, A>)
                     narrow_contiguous(sums, sizes.plane, dx + p * sizes.plane);
                 }
               });
}

}  // namespace

void resample(const Tensor& x, const ops::ResamplingAxes& axes, const Tensor& y) {
  if (y.numel() == 0) return;
  const int64_t planes = y.numel() / (axes[0].results() * axes[1].results() * axes[2].results());
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    forward(static_cast<const T*>(x.raw_data()), axes, planes, static_cast<T*>(y.raw_data()));
  });
}

void resample_backward(const Tensor& dy, const ops::ResamplingAxes& axes, const Tensor& dx) {
  if (dx.numel() == 0) return;
  const int64_t planes = dx.numel() / Sizes(axes).plane;
  with_floating(dy.dtype(), [&]<class T>(TypeTag<T>) {
    backward(static_cast<const T*>(dy.raw_data()), axes, planes, static_cast<T*>(dx.raw_data()));
  });
}

}  // namespace tessera::kernels::cpu
