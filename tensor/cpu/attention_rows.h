#pragma once

#include <cstdint>

#include "tensor/cpu/isa.h"
#include "tensor/types/float_types.h"

namespace tessera::kernels::cpu {

/// Where a row of weights takes its random words: elements first .. first + n of a sample's mask.
struct MaskRow {
  uint64_t key, first, threshold;  // kept: word >= threshold
  uint32_t sample, step;
  double scale;  // of what is kept
};

/// Queries that are computed together: what causality hides is left out in steps of so many.
inline constexpr int64_t attention_tile = 8;

/// One query's row of products with keys, or a part of it.
template <class A>
struct AttentionRow {
  int64_t seen;   ///< elements that causality shows
  int64_t width;  ///< elements that are written, zeros behind the seen ones
  A scale;        ///< of the products
  A slope;        ///< of their derivative: the scale, also where a mask was added to scaled products
};

/// What is done to rows, computed in A; every row has room up to whole vectors of 64 bytes of A, and what is
/// beyond the seen elements there may be written; weights go to the products as Out (A, or bf16 for f32).
/// `factors` are dropout's, or null.
template <class A, class Out>
struct AttentionRows {
  /// Of up to `attention_tile` rows, `leading` elements apart in s, factors and out: out <- softmax(scale s)
  /// factors, and of scale s the largest and log(sum(exp(scale s - largest))); s is overwritten. A row of
  /// minus infinities gives zeros. out may be s.
  void (*weights)(const AttentionRow<A>* rows, int64_t count, int64_t leading, A* s, const A* factors,
                  Out* out, A* largest, A* log_sum);
  /// With w = exp(scale s - largest - log_sum): p <- w factors, ds <- w (dp factors - dot) scale. p may be s,
  /// and ds dp.
  void (*slopes)(const AttentionRow<A>& row, const A* s, const A* dp, A largest, A log_sum, A dot,
                 const A* factors, Out* p, Out* ds);
  /// The sum of a[i] b[i].
  A (*dot)(const Out* a, const Out* b, int64_t n);
  /// Dropout's factors of n weights: 0, or the row's scale.
  void (*factors)(const MaskRow& row, A* out, int64_t n);
  /// s <- scale s + mask, whose elements are `step` apart.
  void (*add_mask)(const A* mask, int64_t step, int64_t n, A scale, A* s);
  /// s <- scale s where `seen`, minus infinity elsewhere.
  void (*hide)(const bool* seen, int64_t step, int64_t n, A scale, A* s);
};

TESSERA_DECLARE_PER_ISA(const AttentionRows<float, float>* attention_rows_f32();
                        const AttentionRows<double, double>* attention_rows_f64();
                        const AttentionRows<float, bfloat16>* attention_rows_bf16();)

}  // namespace tessera::kernels::cpu
