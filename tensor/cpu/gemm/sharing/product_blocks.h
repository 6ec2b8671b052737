#pragma once  // internal

#include <algorithm>

#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/gemm/sharing/shared_work.h"
#include "tensor/cpu/gemm/sharing/thread_cut.h"
#include "tensor/matrix_layout.h"
#include "tensor/strided_loop.h"
#include "tensor/threads/parallel.h"

/// How matrix products are divided among threads: c (m, n) = a (m, k) b (k, n). Every path (f32 and f64,
/// bf16, oneDNN) divides its work in the same three steps; they differ in the constants and in the choice of
/// a cut.
///
/// 1. How many threads. A second thread is worth its start from `grain` multiply-adds on (`threads_for`).
/// 2. Whole products, or blocks. Products are cut into as few parts as give every thread equally many, or
///    at least four and a tenth less than another (`plan_products`). The sum over k is never cut: it would
///    need a second pass over c, and every number of threads would round differently.
/// 3. Where the edges are. A part begins at a multiple of the kernel's tile, so that only the last one has
///    partial tiles; it is a block of c, or up to three where a block each would leave threads without work
///    (thread_cut.h).
///
/// Where a function of x is computed between two products (tensor/cpu/layers/activation_linear.cpp), the
/// cache limits a block too: a thread then gets several blocks, and every thread equally many
/// (`blocks_of_at_most`), or more where it is done first (shared_work.h), as with the parts of one product by
/// our f32 kernels or on tiles (part_items.h).
///
/// A cut depends on the extents and the number of threads alone; a weight's gradient on tiles and by our f32
/// kernels has none, but blocks that threads take as they get to them (shared_blocks.h). A library may sum a
/// block of another size in another order, so a changed cut is a change of results.
namespace tessera::kernels::cpu {

/// A grid of blocks of c, however many each thread gets: the number of blocks of rows and of columns, and the
/// steps that their edges are multiples of.
struct Cut {
  int64_t rows = 1, columns = 1;
  int64_t row_step = 1, column_step = 1;
  bool round_up = true;  ///< edges between two steps: to the next one, or else to the one before

  int64_t blocks() const { return rows * columns; }

  /// Block `i` of c (m, n), counted along rows.
  ProductBlock block(int64_t m, int64_t n, int64_t i) const {
    const int64_t row = i / columns, column = i % columns;
    const int64_t i0 = edge(m, row, rows, row_step), j0 = edge(n, column, columns, column_step);
    return {i0, edge(m, row + 1, rows, row_step) - i0, j0, edge(n, column + 1, columns, column_step) - j0};
  }

 private:
  int64_t edge(int64_t extent, int64_t i, int64_t count, int64_t step) const {
    if (i == count) return extent;
    return std::min(extent, (extent * i / count + (round_up ? step - 1 : 0)) / step * step);
  }
};

/// The number of blocks of at most `largest` into which an extent is cut, so that each of `num_threads()`
/// threads gets equally many.
inline int64_t blocks_of_at_most(int64_t largest, int64_t extent) {
  const int64_t threads = num_threads(), least = (extent + largest - 1) / largest;
  return std::max<int64_t>(1, std::min(extent, (least + threads - 1) / threads * threads));
}

/// `count` products of the same extents.
struct ProductExtents {
  int64_t count, m, n, k;
};

/// How products are shared: each is cut into `parts`, and the parts of all are dealt to `threads` in their
/// order, equally many to each or one more.
struct ProductPlan {
  int64_t threads, parts;
  ThreadCut cut;  ///< of each product, into `parts`
};

/// The plan for at most `most_threads`. choose_cut(parts) gives the cut of a product into at most `parts`.
template <class ChooseCut>
ProductPlan plan_products(const ProductExtents& e, int64_t grain, int64_t most_threads,
                          const ChooseCut& choose_cut) {
  const int64_t threads = std::clamp<int64_t>(e.count * e.m * e.n * e.k / grain, 1, most_threads);
  const auto is_even = [&](int64_t parts) {
    const int64_t all = e.count * parts, most = (all + threads - 1) / threads;
    return all == threads * most || (all >= 4 * threads && 10 * all >= 9 * threads * most);
  };
  int64_t parts = 1;
  while (parts < threads && !is_even(parts)) ++parts;
  const ThreadCut cut = parts == 1 ? ThreadCut{} : choose_cut(parts);  // for fewer, where more would wait
  const int64_t all = e.count * cut.threads;
  return {threads_in_use(all, threads), cut.threads, cut};
}

/// Calls multiply(index of a product, block of its c) for every block of all products, in `num_threads()`
/// threads at most. choose_cut as in `plan_products`.
template <class ChooseCut, class Multiply>
void for_each_block(const ProductExtents& e, int64_t grain, const ChooseCut& choose_cut,
                    const Multiply& multiply) {
  const ProductPlan plan = plan_products(e, grain, num_threads(), choose_cut);
  const int64_t all = e.count * plan.parts;
  parallel_for(plan.threads, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = all * first / plan.threads; i < all * last / plan.threads; ++i)
      for (const ProductBlock& block : plan.cut.pieces(e.m, e.n, i % plan.parts))
        if (!block.empty()) multiply(i / plan.parts, block);
  });
}

/// The products of a batch: the first one, and the offsets of the others.
template <class T, class C>
struct ProductBatch {
  Gemm<T, C> first;
  int64_t count;
  StridedLoop<3> loop;

  Gemm<T, C> at(int64_t index) const {
    int64_t offsets[3];
    loop.row_offsets(index / loop.inner(), offsets);
    const int64_t column = index % loop.inner(), last = loop.ndim - 1;
    Gemm<T, C> gemm = first;
    gemm.a += offsets[0] + column * loop.strides[0][last];
    gemm.b += offsets[1] + column * loop.strides[1][last];
    gemm.c += offsets[2] + column * loop.strides[2][last];
    return gemm;
  }
};

/// The products out (..., m, n) = a (..., m, k) b (..., k, n), where each matrix has a `matrix_layout`.
template <class T, class C>
ProductBatch<T, C> product_batch(const Tensor& a, const Tensor& b, const Tensor& out, bool accumulate) {
  const MatrixLayout la = *matrix_layout(a), lb = *matrix_layout(b), lc = *matrix_layout(out);
  const Gemm<T, C> first{.m = out.size(-2),
                         .n = out.size(-1),
                         .k = a.size(-1),
                         .a = static_cast<const T*>(a.raw_data()),
                         .lda = la.leading,
                         .a_transposed = la.transposed,
                         .b = static_cast<const T*>(b.raw_data()),
                         .ldb = lb.leading,
                         .b_transposed = lb.transposed,
                         .c = static_cast<C*>(out.raw_data()),
                         .ldc = lc.leading,
                         .accumulate = accumulate};
  const Shape batch = batch_dims(out.shape());
  const Strides sa = batch_dims(a.strides()), sb = batch_dims(b.strides()), sc = batch_dims(out.strides());
  return {first, batch.numel(), StridedLoop<3>(batch, {&sa, &sb, &sc})};
}

/// Calls multiply(product of a block, its first column) for every block of the batch. choose_cut(first
/// product, parts) gives the cut of a product.
template <class T, class C, class ChooseCut, class Multiply>
void for_each_block(const ProductBatch<T, C>& batch, int64_t grain, const ChooseCut& choose_cut,
                    const Multiply& multiply) {
  const Gemm<T, C>& first = batch.first;
  for_each_block(
      {batch.count, first.m, first.n, first.k}, grain,
      [&](int64_t parts) { return choose_cut(first, parts); },
      [&](int64_t index, const ProductBlock& block) {
        multiply(batch.at(index).tile(block.row, block.rows, block.column, block.columns), block.column);
      });
}

}  // namespace tessera::kernels::cpu
