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

/// Rows of products with a range of keys, and the weights that come of them, `leading` elements apart.
template <class A, class Out>
struct WeightRows {
  const AttentionRow<A>* rows;
  int64_t count, leading;
  const A* s;
  const A* factors;   ///< dropout's, or null
  Out* out;           ///< may be s
  A *largest, *sums;  ///< of each row's ranges so far; before the first they are not read
  A* rescale;         ///< of each row: by which what the ranges before have given is to be multiplied
  bool is_first;      ///< rescale is not written, and may be null
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
  /// The next range of keys of up to `attention_tile` rows, by the softmax of Milakov and Gimelshein (2018);
  /// weights are divided by their sum at the end. With m the larger of `largest` and max(scale s), and
  /// rescale = exp(largest - m), out <- exp(scale s - m) factors; sums <- rescale sums + sum(exp(scale s -
  /// m)); largest <- m. With `is_first`, as if `largest` were minus infinity and `sums` 0. A row of minus
  /// infinities gives zeros.
  void (*weights)(const WeightRows<A, Out>& tile);
  /// inverse <- 1 / sums, which the results are multiplied with after the last range; 1 where `largest` is
  /// minus infinity, for rows without visible keys.
  void (*invert)(int64_t count, const A* largest, const A* sums, A* inverse);
  /// sums <- log(sums); 0 where `largest` is minus infinity.
  void (*take_logarithms)(int64_t count, const A* largest, A* sums);
  /// to <- from factors[r], rounded once to A or to Out, for rows of n elements.
  /// @{
  void (*rescale)(const A* from, int64_t from_stride, const A* factors, A* to, int64_t to_stride,
                  int64_t rows, int64_t n);
  void (*scale)(const A* from, int64_t from_stride, const A* factors, Out* to, int64_t to_stride,
                int64_t rows, int64_t n);
  /// @}
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
