#pragma once  // internal

#include <cstdint>

#include "tensor/types/float_types.h"

/// The inner kernels of a bf16 product, for processors that multiply pairs of bf16 into f32 (vdpbf16ps, of
/// AVX512-BF16). The second operand is packed in panels, the first is read in place.
namespace tessera::kernels::cpu {

/// Columns of a panel, one vector of accumulators.
inline constexpr int64_t panel_width = 16;
/// Rows of c that one call of the kernel computes at most.
inline constexpr int64_t tile_rows = 8;

/// Whether this processor has the instructions and the limit on instruction sets (tensor/cpu/isa.h) allows
/// them; or a model of the tiles is used (tiles/tile_registers.h).
bool multiplies_bf16_pairs();
/// Whether products run on tiles, or on their model: where the pairs of the first operand lie side by side.
bool multiplies_pairs_on_tiles();

/// A matrix (k, n) in panels of 16 columns. A panel is ceil(k / 2) vectors, each with the elements of rows 2p
/// and 2p + 1 side by side for every column. Edges are padded with 0.
struct PairPanels {
  uint32_t* data;
  int64_t stride;  // between panels, in pairs

  /// Pairs between panels: an odd number of vectors, so that panels begin in different sets of a cache.
  static int64_t stride_for(int64_t k) { return ((k + 1) / 2 | 1) * panel_width; }
  static int64_t count_for(int64_t n) { return (n + panel_width - 1) / panel_width; }
  /// Pairs (of 32 bits) that a (k, n) matrix occupies.
  static int64_t size_for(int64_t k, int64_t n) { return stride_for(k) * count_for(n); }
};

/// Packs a matrix whose rows are `leading` elements apart, or, when `transposed`, whose columns are.
void pack_pairs(const bfloat16* from, int64_t leading, bool transposed, int64_t k, int64_t n,
                const PairPanels& to);

/// Copies a matrix (k, m), whose rows are `leading` elements apart, to its transpose (m, k) in rows
/// `to_leading` apart (a multiple of 32, at least k). Elements after k are 0.
void pack_transposed(const bfloat16* from, int64_t leading, int64_t k, int64_t m, bfloat16* to,
                     int64_t to_leading);

/// The first operand: pair p of row i is at data + i * row + p * pair (in elements). Contiguous rows have
/// pair = 2; a panel of `pack_pairs` has row = 2 and pair = 32.
struct PairRows {
  const bfloat16* data;
  int64_t row, pair;
};

/// The destination of the sums: f32 or bf16, rounded once, after `bias` (null: none) and, with `accumulate`,
/// the value in c have been added in f32.
struct PairTarget {
  void* c;
  int64_t leading;
  bool is_f32, accumulate;
  const float* bias;
};

/// c (m, n) = a (m, k) b (k, n), on tiles where there are some. Every element is summed over k in one order,
/// whatever m, n and its position.
void multiply_pairs(int64_t m, int64_t n, int64_t k, const PairRows& a, const PairPanels& b,
                    const PairTarget& target);

}  // namespace tessera::kernels::cpu
