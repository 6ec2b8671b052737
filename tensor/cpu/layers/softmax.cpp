// Softmax along any dimension, by the per-ISA row kernels: in place where a row is contiguous and of the type
// that is computed in, through a buffer of one row otherwise.
#include "tensor/cpu/layers/softmax.h"

#include <vector>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/softmax_rows.h"
#include "tensor/strided_loop.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

/// The fewest elements for which a second thread is worth its start.
constexpr int64_t grain_elements = 8192;

/// A row as the kernels take it: in place, or converted into `buffer`.
template <class T, class A>
const A* read_row(const T* row, int64_t step, int64_t n, std::vector<A>& buffer) {
  if constexpr (std::is_same_v<T, A>)
    if (step == 1) return row;
  widen_row(row, step, n, buffer.data());
  return buffer.data();
}

/// Calls compute(rows of the inputs, n, row of the result) for every row along `dim`. `tensors` are the
/// inputs and then the result, all of one shape.
template <class T, int inputs, class Compute>
void for_each_row(const Tensor* const (&tensors)[inputs + 1], int64_t dim, const Compute& compute) {
  using A = accumulator_of<T>;
  const int64_t n = tensors[0]->shape()[dim];
  Shape outer = tensors[0]->shape();
  outer[dim] = 1;
  std::array<const Strides*, inputs + 1> strides;
  T* data[inputs + 1];
  int64_t steps[inputs + 1];
  for (int k = 0; k <= inputs; ++k) {
    strides[k] = &tensors[k]->strides();
    data[k] = static_cast<T*>(tensors[k]->raw_data());
    steps[k] = n == 1 ? 1 : tensors[k]->strides()[dim];
  }
  const StridedLoop<inputs + 1> loop(outer, strides);
  const int64_t inner = loop.inner();
  parallel_for(loop.rows() * inner, 1 + grain_elements / n, [&](int64_t begin, int64_t end) {
    std::vector<A> buffers[inputs + 1];
    for (int k = 0; k <= inputs; ++k)
      if (!std::is_same_v<T, A> || steps[k] != 1) buffers[k].resize(static_cast<size_t>(n));
    for (int64_t row = begin; row < end; ++row) {
      int64_t offsets[inputs + 1];
      loop.row_offsets(row / inner, offsets);
      for (int k = 0; k <= inputs; ++k) offsets[k] += row % inner * loop.strides[k][loop.ndim - 1];
      const A* rows[inputs];
      for (int k = 0; k < inputs; ++k) rows[k] = read_row(data[k] + offsets[k], steps[k], n, buffers[k]);
      T* out = data[inputs] + offsets[inputs];
      if constexpr (std::is_same_v<T, A>) {
        if (steps[inputs] == 1) {
          compute(rows, n, out);
          continue;
        }
      }
      compute(rows, n, buffers[inputs].data());
      narrow_row(buffers[inputs].data(), steps[inputs], n, out);
    }
  });
}

}  // namespace

void softmax(const Tensor& x, const Tensor& y, int64_t dim) {
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    const auto kernel = softmax_rows<accumulator_of<T>>().softmax;
    for_each_row<T, 1>({&x, &y}, dim,
                       [kernel](const auto& rows, int64_t n, auto* out) { kernel(rows[0], n, out); });
  });
}

void log_softmax(const Tensor& x, const Tensor& y, int64_t dim) {
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    const auto kernel = softmax_rows<accumulator_of<T>>().log_softmax;
    for_each_row<T, 1>({&x, &y}, dim,
                       [kernel](const auto& rows, int64_t n, auto* out) { kernel(rows[0], n, out); });
  });
}

void softmax_backward(const Tensor& y, const Tensor& dy, const Tensor& dx, int64_t dim) {
  with_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    const auto kernel = softmax_rows<accumulator_of<T>>().softmax_backward;
    for_each_row<T, 2>({&y, &dy, &dx}, dim, [kernel](const auto& rows, int64_t n, auto* out) {
      kernel(rows[0], rows[1], n, out);
    });
  });
}

void log_softmax_backward(const Tensor& y, const Tensor& dy, const Tensor& dx, int64_t dim) {
  with_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    const auto kernel = softmax_rows<accumulator_of<T>>().log_softmax_backward;
    for_each_row<T, 2>({&y, &dy, &dx}, dim, [kernel](const auto& rows, int64_t n, auto* out) {
      kernel(rows[0], rows[1], n, out);
    });
  });
}

}  // namespace tessera::kernels::cpu
