#include "tensor/cpu/gemm/thin/gemm_int8.h"

#include <algorithm>

#include "tensor/cpu/gemm/thin/int8_rows.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/matmul.h"

namespace tessera::kernels::cpu {
namespace {

/// Elements of the weight that are widened at a time for a product of many rows: 4 MiB of f32.
constexpr int64_t widened_elements = 1 << 20;

/// T: of a and the bias; C: of out, T or float.
template <class T, class C>
void multiply_in_place(const Tensor& a, const Tensor& values, const float* scales, const T* bias, C* out) {
  const int64_t m = a.size(0), k = a.size(1), n = values.size(0);
  const Scratch<float> wide(m * k), arranged(m * thin_stride(k));
  widen_contiguous(a.data<T>(), m * k, wide.get());
  arrange_thin_sums<int8_t>(wide.get(), k, m, k, arranged.get());
  thin_columns(m, n, k, arranged.get(), static_cast<const int8_t*>(values.raw_data()), k,
               [&](int64_t j, int64_t columns, float* sums) {
                 scale_thin_columns(m, columns, scales + j, sums);
                 float row[thin_columns_at_once];
                 if (bias) widen_contiguous(bias + j, columns, row);
                 for (int64_t i = 0; i < m; ++i, sums += thin_columns_at_once) {
                   if (bias)
                     for (int64_t c = 0; c < columns; ++c) sums[c] += row[c];
                   narrow_contiguous(sums, columns, out + i * n + j);
                 }
               });
}

template <class T, class C>
void multiply_in_place(const Tensor& a, const Tensor& values, const Tensor& scales, const Tensor& bias,
                       const Tensor& out) {
  multiply_in_place(a, values, scales.data<float>(), bias.defined() ? bias.data<T>() : nullptr,
                    out.data<C>());
}

}  // namespace

void matmul_int8(const Tensor& a, const Tensor& values, const Tensor& scales, const Tensor& bias,
                 const Tensor& out) {
  if (a.size(0) <= thin_rows)
    return a.dtype() == f32     ? multiply_in_place<float, float>(a, values, scales, bias, out)
           : out.dtype() == f32 ? multiply_in_place<bfloat16, float>(a, values, scales, bias, out)
                                : multiply_in_place<bfloat16, bfloat16>(a, values, scales, bias, out);
  const int64_t k = a.size(1), n = values.size(0);
  const int64_t step = std::min(n, std::max<int64_t>(64, widened_elements / k / 64 * 64));
  const Tensor widened = Tensor::empty({step, k}, a.dtype());
  for (int64_t j = 0; j < n; j += step) {
    const int64_t rows = std::min(step, n - j);
    const Tensor weight = widened.narrow(0, 0, rows);
    dequantize_rows(values.narrow(0, j, rows), scales.narrow(0, j, rows), weight);
    weight.bump_version();  // packed weights are known by their version
    matmul(a, weight.transpose(0, 1), bias.defined() ? bias.narrow(0, j, rows) : bias, out.narrow(1, j, rows),
           false);
  }
}

}  // namespace tessera::kernels::cpu
