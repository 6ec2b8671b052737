#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"
#include "tensor/types/float_types.h"

namespace tessera::kernels::cpu {

/// The source of random words: the elements of a sample's mask from `first` on.
struct MaskRow {
  uint64_t key, first, threshold;  // kept: word >= threshold
  uint32_t sample, step;
  double scale;  // the factor of the kept weights
};

/// The most queries that are computed together: the rows of two tiles of AMX. Keys that are hidden from all
/// of them are left out.
inline constexpr int64_t attention_tile = 32;

/// One query's row of products with a range of keys.
template <class A>
struct AttentionRow {
  int64_t visible;   ///< elements up to the last one that causality and the window leave visible
  int64_t width;     ///< elements that are written: zeros after the visible ones
  A scale;           ///< factor of the products
  A gradient_scale;  ///< factor of their gradients: the call's scale, also where `scale` is 1 after a mask
};

/// Rows of recomputed weights and of their gradients, all `leading` elements apart.
template <class A, class Out>
struct ScoreGradients {
  const AttentionRow<A>* rows;
  int64_t count, leading;
  const A *s, *dp;
  const A *largest, *log_sum, *dots;  ///< of each row
  const A* factors;                   ///< dropout's, or null
  Out *p, *ds;                        ///< may be s and dp
};

/// The computations on rows, in A. Every row has space up to whole vectors of 64 bytes of A, and the elements
/// after the visible ones may be overwritten. Weights are stored as Out (A, or bf16 for f32). `factors` are
/// dropout's, or null.
template <class A, class Out>
struct AttentionRows {
  /// For up to `attention_tile` rows, `leading` elements apart in s, factors and out: out <- softmax(scale s)
  /// factors; largest <- max(scale s); log_sum <- log(sum(exp(scale s - largest))). s is overwritten. A row
  /// of minus infinities gives zeros. out may be s.
  void (*weights)(const AttentionRow<A>* rows, int64_t count, int64_t leading, A* s, const A* factors,
                  Out* out, A* largest, A* log_sum);
  /// With w = exp(scale s - largest - log_sum): p <- w factors, ds <- w (dp factors - dot) scale.
  void (*score_gradients)(const ScoreGradients<A, Out>& tile);
  /// out[r] <- the sum of a[i] b[i] for i < n, for rows a_stride and b_stride apart.
  void (*dots)(const Out* a, int64_t a_stride, const Out* b, int64_t b_stride, int64_t rows, int64_t n,
               A* out);
  /// to <- from, rounded, for rows of n elements.
  void (*round)(const A* from, int64_t from_stride, Out* to, int64_t to_stride, int64_t rows, int64_t n);
  /// The dropout factors of the visible weights of rows `leading` apart in out: 0, or the mask's scale. Row r
  /// begins with element first + r step of the mask.
  void (*dropout_factors)(const MaskRow& mask, const AttentionRow<A>* rows, int64_t count, int64_t step,
                          int64_t leading, A* out);
  /// s <- scale s + mask, whose elements are `step` apart.
  void (*add_mask)(const A* mask, int64_t step, int64_t n, A scale, A* s);
  /// s <- scale s - slope |distance - i| for element i: ALiBi's bias.
  void (*add_distances)(A slope, int64_t distance, int64_t n, A scale, A* s);
  /// s <- scale s where `visible` is true, minus infinity elsewhere.
  void (*hide)(const bool* visible, int64_t step, int64_t n, A scale, A* s);
};

TESSERA_DECLARE_PER_ISA(const AttentionRows<float, float>* attention_rows_f32();
                        const AttentionRows<double, double>* attention_rows_f64();
                        const AttentionRows<float, bfloat16>* attention_rows_bf16();)

}  // namespace tessera::kernels::cpu
