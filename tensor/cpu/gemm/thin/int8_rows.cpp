#include "tensor/cpu/gemm/thin/int8_rows.h"

#include <algorithm>
#include <type_traits>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain = 1 << 15;  // elements that are worth a second thread

/// Calls run(first row, row after the last) for ranges of rows, in all threads.
template <class Run>
void for_rows(const Tensor& matrix, const Run& run) {
  const int64_t k = std::max<int64_t>(matrix.size(1), 1);
  parallel_for(matrix.size(0), (grain + k - 1) / k, run);
}

template <class T>
void quantize(const T* weight, int64_t begin, int64_t end, int64_t k, int8_t* values, float* scales) {
  const Scratch<float> wide(std::is_same_v<T, float> ? 0 : k);
  for (int64_t j = begin; j < end; ++j) {
    const float* row;
    if constexpr (std::is_same_v<T, float>) {
      row = weight + j * k;
    } else {
      widen_contiguous(weight + j * k, k, wide.get());
      row = wide.get();
    }
    scales[j] = TESSERA_PER_ISA(quantize_row)(row, k, values + j * k);
  }
}

}  // namespace

void quantize_rows(const Tensor& weight, const Tensor& values, const Tensor& scales) {
  const int64_t k = weight.size(1);
  auto* const q = static_cast<int8_t*>(values.raw_data());
  for_rows(weight, [&](int64_t begin, int64_t end) {
    weight.dtype() == f32 ? quantize(weight.data<float>(), begin, end, k, q, scales.data<float>())
                          : quantize(weight.data<bfloat16>(), begin, end, k, q, scales.data<float>());
  });
}

void dequantize_rows(const Tensor& values, const Tensor& scales, const Tensor& out) {
  const int64_t k = values.size(1);
  const auto* const q = static_cast<const int8_t*>(values.raw_data());
  for_rows(values, [&](int64_t begin, int64_t end) {
    const bool is_wide = out.dtype() == f32;
    const Scratch<float> row(is_wide ? 0 : k);
    for (int64_t j = begin; j < end; ++j) {
      float* const to = is_wide ? out.data<float>() + j * k : row.get();
      TESSERA_PER_ISA(widen_int8)(q + j * k, k, scales.data<float>()[j], to);
      if (!is_wide) narrow_contiguous(to, k, out.data<bfloat16>() + j * k);
    }
  });
}

}  // namespace tessera::kernels::cpu
