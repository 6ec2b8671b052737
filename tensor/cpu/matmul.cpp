#include "tensor/cpu/matmul.h"

#include "tensor/cpu/gemm/gemm_eigen.h"
#include "tensor/cpu/gemm/gemm_narrow.h"
#include "tensor/cpu/gemm/onednn/gemm_onednn.h"
#include "tensor/cpu/gemm/packed/gemm_packed.h"
#include "tensor/cpu/gemm/pairs/gemm_bf16.h"
#include "tensor/cpu/gemm/product_choice.h"
#include "tensor/cpu/gemm/sharing/product_blocks.h"
#include "tensor/cpu/gemm/sharing/shared_path.h"
#include "tensor/cpu/gemm/thin/gemm_thin.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/transpose.h"

namespace tessera::kernels::cpu {
namespace {

template <class T, class C>
void add_bias(const Gemm<T, C>& tile, const T* bias) {
  using A = accumulator_of<C>;
  for (int64_t i = 0; i < tile.m; ++i) {
    C* row = tile.c + i * tile.ldc;
    for (int64_t j = 0; j < tile.n; ++j) row[j] = narrow<C>(widen<A>(row[j]) + widen<A>(bias[j]));
  }
}

template <class T, class C, class Multiply>
void multiply_batch(const ProductBatch<T, C>& batch, const Tensor& bias, const Multiply& multiply) {
  const T* added = bias.defined() ? static_cast<const T*>(bias.raw_data()) : nullptr;
  for_each_block(
      batch, library_path.grain,
      [](const Gemm<T, C>& first, int64_t parts) {
        return fastest_cut(first.m, first.n, parts, library_path.costs);
      },
      [&](const Gemm<T, C>& block, int64_t column) {
        multiply(block);
        if (added) add_bias(block, added + column);
      });
}

template <class T, class C, class Multiply>
void run(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate,
         const Multiply& multiply) {
  multiply_batch(product_batch<T, C>(a, b, out, accumulate), bias, multiply);
}

/// oneDNN's f32 product is about 7 % slower where the second operand is column-major (a weight in y = x W^T)
/// than where it is row-major. From this many rows on, a transposed copy, made by all threads, costs less
/// than that.
constexpr int64_t min_rows_to_transpose = 48;

void run_onednn_f32(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                    bool accumulate) {
  ProductBatch<float, float> batch = product_batch<float, float>(a, b, out, accumulate);
  Gemm<float>& first = batch.first;
  if (batch.count > 1 || !first.b_transposed || first.m < min_rows_to_transpose)
    return multiply_batch(batch, bias, &gemm_onednn_f32);
  const Scratch<float> transposed(first.k * first.n);
  transpose_in_parallel(first.b, first.ldb, first.n, first.k, transposed.get());
  first.b = transposed.get();
  first.ldb = first.n;
  first.b_transposed = false;
  multiply_batch(batch, bias, &gemm_onednn_f32);
}

template <class T>
void run_narrow(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate) {
  if (out.dtype() == f32)
    run<T, float>(a, b, bias, out, accumulate,
                  [](const Gemm<T, float>& gemm) { gemm_narrow(gemm, &gemm_f32); });
  else
    run<T, T>(a, b, bias, out, accumulate, [](const Gemm<T>& gemm) { gemm_narrow(gemm, &gemm_f32); });
}

void matmul_bf16_operands(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                          bool accumulate) {
  switch (bf16_product()) {
    case Bf16Product::onednn:
      return matmul_onednn_bf16(a, b, bias, out, accumulate);
    case Bf16Product::pairs:
      return matmul_bf16(a, b, bias, out, accumulate);
    case Bf16Product::through_f32:
      return run_narrow<bfloat16>(a, b, bias, out, accumulate);
  }
}

void matmul_f32(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate) {
  switch (f32_product({out.size(-2), matrix_layout(a)->transposed})) {
    case F32Product::packed:
      return matmul_packed_f32(a, b, bias, out, accumulate);
    case F32Product::onednn:
      return run_onednn_f32(a, b, bias, out, accumulate);
    case F32Product::eigen:
      return run<float, float>(a, b, bias, out, accumulate, TESSERA_PER_ISA(gemm_eigen_f32));
  }
}

}  // namespace

void gemm_f32(const Gemm<float>& gemm) {
  gemm_f32_by(f32_product({gemm.m, gemm.a_transposed}), gemm);
}

void gemm_f32_by(F32Product product, const Gemm<float>& gemm) {
  switch (product) {
    case F32Product::packed:
      return gemm_packed_f32(gemm, nullptr);
    case F32Product::onednn:
      return gemm_onednn_f32(gemm);
    case F32Product::eigen:
      return TESSERA_PER_ISA(gemm_eigen_f32)(gemm);
  }
}

void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate) {
  if (is_thin_product(a, b, out)) return matmul_thin(a, b, bias, out, accumulate);
  switch (a.dtype()) {
    case f64:
      return run<double, double>(a, b, bias, out, accumulate, TESSERA_PER_ISA(gemm_eigen_f64));
    case f32:
      return matmul_f32(a, b, bias, out, accumulate);
    case f16:
      return run_narrow<float16>(a, b, bias, out, accumulate);
    default:
      return matmul_bf16_operands(a, b, bias, out, accumulate);
  }
}

}  // namespace tessera::kernels::cpu
