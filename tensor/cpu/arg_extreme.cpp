#include "tensor/cpu/arg_extreme.h"

#include "tensor/cpu/loops/convert.h"
#include "tensor/strided_loop.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/accumulator.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

template <class T>
int64_t extreme_position(const T* x, int64_t n, int64_t step, bool largest) {
  using A = accumulator_of<T>;
  A best = widen<A>(x[0]);
  int64_t position = 0;
  for (int64_t i = 0; i < n; ++i) {
    const A value = widen<A>(x[i * step]);
    if (value != value) return i;
    if (largest ? value > best : value < best) {
      best = value;
      position = i;
    }
  }
  return position;
}

}  // namespace

void arg_extreme(bool largest, int64_t dim, const Tensor& x, const Tensor& out) {
  if (out.numel() == 0) return;
  Strides outer = x.strides();
  outer[dim] = 0;
  const StridedLoop<2> loop(out.shape(), {&outer, &out.strides()});
  const int64_t n = x.shape()[dim], step = x.strides()[dim];
  int64_t* positions = out.data<int64_t>();
  with_any(x.dtype(), [&]<class T>(TypeTag<T>) {
    const T* values = static_cast<const T*>(x.raw_data());
    parallel_for(loop.rows(), 1 + 16384 / (loop.inner() * n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t offsets[2];
        loop.row_offsets(row, offsets);
        for (int64_t i = 0; i < loop.inner(); ++i)
          positions[offsets[1] + i * loop.strides[1][loop.ndim - 1]] =
              extreme_position(values + offsets[0] + i * loop.strides[0][loop.ndim - 1], n, step, largest);
      }
    });
  });
}

}  // namespace tessera::kernels::cpu
