#include "tensor/cpu/matmul.h"

#include <algorithm>

#include "tensor/cpu/gemm_bf16.h"
#include "tensor/cpu/gemm_eigen.h"
#include "tensor/cpu/gemm_narrow.h"
#include "tensor/cpu/gemm_onednn.h"
#include "tensor/cpu/scratch.h"
#include "tensor/cpu/strided_loop.h"
#include "tensor/cpu/transpose.h"
#include "tensor/matrix_layout.h"
#include "tensor/ops/matmul.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

// The fewest multiply-adds for which a second thread is worth its start.
constexpr int64_t grain = 1 << 17;

/// The number of blocks of rows and of columns that each product of a batch is cut into, one block per
/// thread.
struct Cut {
  int64_t rows = 1, columns = 1;
};

/// Every thread packs the rows and columns of its block, so among the ways to cut into `blocks` blocks the
/// one with the smallest perimeter of a block is chosen.
Cut choose_cut(int64_t m, int64_t n, int64_t blocks) {
  Cut best;
  int64_t smallest = INT64_MAX;
  for (int64_t rows = 1; rows <= blocks; ++rows) {
    if (blocks % rows != 0) continue;
    const int64_t columns = blocks / rows;
    if ((rows > 1 && rows * 16 > m) || (columns > 1 && columns * 16 > n)) continue;
    const int64_t perimeter = m / rows + n / columns;
    if (perimeter < smallest) {
      smallest = perimeter;
      best = {rows, columns};
    }
  }
  return best;
}

/// The start of block `i` of `blocks`: a multiple of 16, the elements of a vector.
int64_t block_begin(int64_t extent, int64_t i, int64_t blocks) {
  return i == blocks ? extent : std::min(extent, (extent * i / blocks + 15) / 16 * 16);
}

/// The products of a batch: the first one, and the offsets of the others.
template <class T, class C>
struct Batch {
  Gemm<T, C> first;
  int64_t count;
  StridedLoop<3> loop;

  Gemm<T, C> at(int64_t index) const {
    int64_t offsets[3];
    loop.row_offsets(index / loop.inner(), offsets);
    const int64_t column = index % loop.inner(), last = loop.rank - 1;
    Gemm<T, C> gemm = first;
    gemm.a += offsets[0] + column * loop.strides[0][last];
    gemm.b += offsets[1] + column * loop.strides[1][last];
    gemm.c += offsets[2] + column * loop.strides[2][last];
    return gemm;
  }
};

Shape without_matrix(const Shape& shape) {
  return Shape(std::span<const int64_t>(shape.begin(), shape.rank() - 2));
}

template <class T, class C>
Batch<T, C> batch_of(const Tensor& a, const Tensor& b, const Tensor& out, bool accumulate) {
  const int rank = out.rank();
  const MatrixLayout la = *matrix_layout(a), lb = *matrix_layout(b), lc = *matrix_layout(out);
  const Gemm<T, C> first{.m = out.shape()[rank - 2],
                         .n = out.shape()[rank - 1],
                         .k = a.shape()[rank - 1],
                         .a = static_cast<const T*>(a.raw_data()),
                         .lda = la.leading,
                         .a_transposed = la.transposed,
                         .b = static_cast<const T*>(b.raw_data()),
                         .ldb = lb.leading,
                         .b_transposed = lb.transposed,
                         .c = static_cast<C*>(out.raw_data()),
                         .ldc = lc.leading,
                         .accumulate = accumulate};
  const Shape batch = without_matrix(out.shape());
  const Strides sa = without_matrix(a.strides()), sb = without_matrix(b.strides()),
                sc = without_matrix(out.strides());
  return {first, batch.numel(), StridedLoop<3>(batch, {&sa, &sb, &sc})};
}

template <class T, class C>
void add_bias(const Gemm<T, C>& tile, const T* bias) {
  for (int64_t i = 0; i < tile.m; ++i) {
    C* row = tile.c + i * tile.ldc;
    for (int64_t j = 0; j < tile.n; ++j) {
      if constexpr (sizeof(C) < 4)
        row[j] = static_cast<C>(static_cast<float>(row[j]) + static_cast<float>(bias[j]));
      else
        row[j] += static_cast<C>(bias[j]);
    }
  }
}

/// Runs `multiply` over the batch in `num_threads()` threads. Threads take whole products where there are
/// enough of them; otherwise each product is cut. The same number of threads gives the same bits.
template <class T, class C, class Multiply>
void for_each_block(const Batch<T, C>& batch, const T* bias, const Multiply& multiply) {
  const Gemm<T, C>& first = batch.first;
  const int64_t work = first.m * first.n * first.k;
  const int64_t threads = std::clamp<int64_t>(batch.count * work / grain, 1, num_threads());
  const bool uncut = batch.count % threads == 0 || batch.count >= 4 * threads;
  const Cut cut = uncut ? Cut{} : choose_cut(first.m, first.n, threads);
  const int64_t blocks = cut.rows * cut.columns;
  parallel_for(batch.count * blocks, 1 + grain * blocks / (work + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % blocks / cut.columns, column = i % cut.columns;
      const int64_t i0 = block_begin(first.m, row, cut.rows), i1 = block_begin(first.m, row + 1, cut.rows);
      const int64_t j0 = block_begin(first.n, column, cut.columns),
                    j1 = block_begin(first.n, column + 1, cut.columns);
      if (i0 == i1 || j0 == j1) continue;
      const Gemm<T, C> tile = batch.at(i / blocks).tile(i0, i1 - i0, j0, j1 - j0);
      multiply(tile);
      if (bias) add_bias(tile, bias + j0);
    }
  });
}

template <class T, class C, class Multiply>
void run(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate,
         const Multiply& multiply) {
  const Batch<T, C> batch = batch_of<T, C>(a, b, out, accumulate);
  for_each_block(batch, bias.defined() ? static_cast<const T*>(bias.raw_data()) : nullptr, multiply);
}

/// oneDNN's f32 product is about 7 % slower where the second operand is column-major (a weight in y = x W^T)
/// than where it is row-major. From this many rows on, a transposed copy, made by all threads, costs less
/// than that.
constexpr int64_t min_rows_to_transpose = 48;

void run_onednn_f32(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                    bool accumulate) {
  Batch<float, float> batch = batch_of<float, float>(a, b, out, accumulate);
  const float* bias_data = bias.defined() ? static_cast<const float*>(bias.raw_data()) : nullptr;
  Gemm<float>& first = batch.first;
  if (batch.count > 1 || !first.b_transposed || first.m < min_rows_to_transpose)
    return for_each_block(batch, bias_data, &gemm_onednn_f32);
  const Scratch<float> transposed(first.k * first.n);
  transpose_in_parallel(first.b, first.ldb, first.n, first.k, transposed.get());
  first.b = transposed.get();
  first.ldb = first.n;
  first.b_transposed = false;
  for_each_block(batch, bias_data, &gemm_onednn_f32);
}

template <class T>
void run_narrow(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate) {
  const auto gemm_f32 = f32_gemm();
  if (out.dtype() == f32)
    run<T, float>(a, b, bias, out, accumulate,
                  [&](const Gemm<T, float>& gemm) { gemm_narrow(gemm, gemm_f32); });
  else
    run<T, T>(a, b, bias, out, accumulate, [&](const Gemm<T>& gemm) { gemm_narrow(gemm, gemm_f32); });
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

}  // namespace

void (*f32_gemm())(const Gemm<float>&) {
  if (matmul_backend() != MatmulBackend::eigen && onednn_serves()) return &gemm_onednn_f32;
  return TESSERA_PER_ISA(gemm_eigen_f32);
}

void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate) {
  switch (a.dtype()) {
    case f64:
      return run<double, double>(a, b, bias, out, accumulate, TESSERA_PER_ISA(gemm_eigen_f64));
    case f32:
      if (f32_gemm() == &gemm_onednn_f32) return run_onednn_f32(a, b, bias, out, accumulate);
      return run<float, float>(a, b, bias, out, accumulate, f32_gemm());
    case f16:
      return run_narrow<float16>(a, b, bias, out, accumulate);
    default:
      return matmul_bf16_operands(a, b, bias, out, accumulate);
  }
}

}  // namespace tessera::kernels::cpu
