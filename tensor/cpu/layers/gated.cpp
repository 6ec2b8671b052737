#include "tensor/cpu/layers/gated.h"

#include <algorithm>

#include "tensor/cpu/loops/gated_rows.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t chunk = 2048;  // elements that a thread computes at least

std::byte* at(const Tensor& x, int64_t row, int64_t column) {
  return static_cast<std::byte*>(x.raw_data()) + (row * x.strides()[0] + column) * size_of(x.dtype());
}

/// Calls compute(row, first column, count) for chunks of all rows.
template <class Compute>
void for_each_chunk(const Tensor& x, const Compute& compute) {
  const int64_t rows = x.size(0), width = x.size(1), per_row = (width + chunk - 1) / chunk;
  const int64_t grain = std::max<int64_t>(1, chunk / std::max<int64_t>(width, 1));
  parallel_for(rows * per_row, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % per_row * chunk;
      compute(i / per_row, first, std::min(chunk, width - first));
    }
  });
}

}  // namespace

void gated(Gate f, const Tensor& gate, const Tensor& x, const Tensor& y) {
  const GatedRows rows = TESSERA_PER_ISA(gated_rows)(f, x.dtype());
  for_each_chunk(x, [&](int64_t row, int64_t first, int64_t n) {
    rows.forward(at(gate, row, first), at(x, row, first), n, at(y, row, first));
  });
}

void gated_backward(Gate f, const Tensor& gate, const Tensor& x, const Tensor& dy, const Tensor& dgate,
                    const Tensor& dx) {
  const GatedRows rows = TESSERA_PER_ISA(gated_rows)(f, x.dtype());
  for_each_chunk(x, [&](int64_t row, int64_t first, int64_t n) {
    rows.backward(at(gate, row, first), at(x, row, first), at(dy, row, first), n, at(dgate, row, first),
                  at(dx, row, first));
  });
}

}  // namespace tessera::kernels::cpu
