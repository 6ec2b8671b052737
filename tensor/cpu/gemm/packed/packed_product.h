#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"

/// The inner kernels of an f32 product. The second operand is packed in panels, the first is read in place
/// or, where it is stored transposed, packed in tiles of rows.
namespace tessera::kernels::cpu {

/// Columns of a panel of the second operand: 64 bytes.
inline constexpr int64_t packed_columns = 16;

/// Sums of squares of what a product stores: in f64, one for each 48 rows by 16 columns of c, to which those
/// of element (i, j) are added at sums[i / 48 * leading + j / 16].
struct F32Squares {
  static constexpr int64_t rows = 48;
  double* sums = nullptr;  ///< null: none are computed
  int64_t leading = 0;

  /// Those of the part of c from (i, j) on, multiples of the unit.
  F32Squares at(int64_t i, int64_t j) const {
    return sums ? F32Squares{sums + i / rows * leading + j / packed_columns, leading} : *this;
  }
};

/// c (m, n) = a (m, k) b (k, n), with `accumulate` added to c, then plus `bias` (n, or null). b is packed in
/// panels of 16 columns, `panel` elements apart; a panel has k rows of 16 elements, padded with 0. a(i, p) is
/// at a + (i / R) * strip + (i % R) * row + p * step, where R is `packed_rows()`. The rows of c are `ldc`
/// elements apart. Every element is summed over k in order, whatever m, n and its position.
struct PackedProduct {
  int64_t m, n, k;
  const float* a = nullptr;
  int64_t strip = 0, row = 0, step = 0;
  const float* panels;
  int64_t panel;
  /// Elements between rows of a panel: more than 16 where b is read in place, and `panel` is 16. A partial
  /// last panel is then read to its end: up to 15 elements after b.
  int64_t panel_row = packed_columns;
  float* c;
  int64_t ldc;
  bool accumulate;
  const float* bias;
  bool streams = false;  ///< whole rows of tiles go past the caches; c and ldc are then multiples of 16
  F32Squares squares = {};
  const float* beside = nullptr;  ///< a matrix like c, with rows `beside_leading` apart, that is needed next
  int64_t beside_leading = 0;
};

// clang-format off
TESSERA_DECLARE_PER_ISA(
  /// Rows of a packed strip, a multiple of those that stay in registers at once.
  int64_t packed_rows();
  void packed_product_f32(const PackedProduct& product);
  /// Packs b (k, n) with rows, or, `transposed`, columns that are `leading` elements apart.
  void pack_panels_f32(const float* b, int64_t leading, bool transposed, int64_t k, int64_t n, float* panels,
                       int64_t panel);
  /// Packs a (m, k) with columns `leading` elements apart, in strips `strip` elements apart: R elements
  /// for each p. The rows that the last strip lacks are left as they are.
  void pack_rows_f32(const float* a, int64_t leading, int64_t m, int64_t k, float* strips, int64_t strip);
)
// clang-format on

}  // namespace tessera::kernels::cpu
