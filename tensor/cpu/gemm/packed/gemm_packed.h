#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/gemm/packed/packed_product.h"
#include "tensor/cpu/gemm/sharing/shared_blocks.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/tensor.h"

/// f32 products by our own kernels (packed_product.h); ../README.md has the blocks and their reasons.
namespace tessera::kernels::cpu {

/// One product in the calling thread; `bias` (n, or null) is added last. An element's bits depend on k, the
/// instruction set and its row and column alone: neither on m, n, nor on the number of threads. `kept`: null,
/// or the panels of all of b, `packed_panel_stride(k)` apart.
void gemm_packed_f32(const Gemm<float>& gemm, const float* bias, const float* kept = nullptr);

/// The panels of a second operand (k, n), a window of `values`, that stays packed between products
/// (../kept_operands.h), for one of `rows` rows; null where it does not, or where it is small enough to be
/// read in place. Panels are `packed_panel_stride(k)` apart.
const float* kept_panels_f32(const Tensor& values, const float* b, int64_t leading, bool transposed,
                             int64_t k, int64_t n, int64_t rows);

/// Whether `columns` columns of a matrix with k rows, `leading` apart, are read in place: whole panels of one
/// that a second-level cache holds.
bool reads_panels_in_place(int64_t k, int64_t leading, int64_t columns);

/// The grid of blocks of a product with a transposed first operand, for up to `threads` threads.
SharedGrid packed_grid(int64_t m, int64_t n, int64_t k, int64_t threads);

/// One product by all threads, of extents above 0; `bias` and `kept` as of `gemm_packed_f32`. Where wanted,
/// the squares of a product with a transposed first operand are summed (../product_squares.h).
void multiply_packed_f32(const Gemm<float>& gemm, const float* bias, const float* kept = nullptr);

/// As `matmul` of tensor/cpu/matmul.h, for f32, none of extent 0.
void matmul_packed_f32(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                       bool accumulate);

/// Where rows of a product by a `PackedOperand` go: `bias`, `accumulate` and `beside` as in `PackedProduct`.
/// With `streams` c is written past the caches: the product has one range, and its panels begin on cache
/// lines.
struct PackedTarget {
  float* c;
  int64_t leading;
  int64_t rows;
  bool accumulate = false;
  const float* bias = nullptr;
  bool streams = false;
  const float* beside = nullptr;
  int64_t beside_leading = 0;
};

/// A second operand b (k, n), packed once for several products.
class PackedOperand {
 public:
  /// Memory for operands of up to (k, n).
  PackedOperand(int64_t k, int64_t n);

  /// Packs a matrix with rows `leading` elements apart, or, `transposed`, with columns.
  void pack(const float* b, int64_t leading, bool transposed, int64_t k, int64_t n);
  /// The same by all threads.
  void pack_in_parallel(const float* b, int64_t leading, bool transposed, int64_t k, int64_t n);

  /// Takes columns column .. column + n, the first of a panel, of what is packed already, in panels
  /// `packed_panel_stride(k)` apart.
  void take_panels(const float* panels, int64_t k, int64_t column, int64_t n);

  /// Takes a matrix with rows `leading` elements apart as it is: a small one that a cache holds, of whole
  /// panels.
  void take(const float* b, int64_t leading, int64_t n);

  /// c (rows, n) = a (rows, depth), rows `lda` apart, times rows first .. first + depth of b, in the calling
  /// thread.
  void multiply(const PackedTarget& to, const float* a, int64_t lda, int64_t first, int64_t depth) const;

 private:
  Scratch<float> panels_;
  const float* data_ = nullptr;
  int64_t n_ = 0, panel_ = 0, row_ = 0;
};

/// The first operands (m, k) of products, stored transposed (as in a weight's gradient) and packed once, a
/// group of ranges of k at a time.
class PackedStrips {
 public:
  /// Rows of k that are packed together, whole ranges: they bound the memory where each takes `elements`.
  static int64_t group_of(int64_t k, int64_t elements);

  /// Memory for a group.
  PackedStrips(int64_t m, int64_t group);

  /// Packs rows p .. p + count of the group, `from` the first of them, `leading` elements apart.
  void pack(const float* from, int64_t leading, int64_t p, int64_t count) const;
  /// The product of rows i .. i + m of the operand over rows p .. p + k of the group, all but `a`, `strip`,
  /// `row` and `step` as given; i is a multiple of 48.
  void multiply(int64_t i, int64_t p, PackedProduct product) const;

 private:
  int64_t m_, height_, strip_;
  Scratch<float> strips_;
};

}  // namespace tessera::kernels::cpu
