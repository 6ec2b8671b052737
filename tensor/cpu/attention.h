#pragma once

#include <span>

#include "tensor/cpu/isa.h"
#include "tensor/ops/attention.h"
#include "tensor/profile/operand_bytes.h"

namespace tessera::kernels::cpu {

/// What one call of the kernels works on: operands of f32 or f64 with last strides 1, scale and samples
/// resolved.
struct AttentionCall {
  Tensor q, k, v, out, log_sum_exp;
  bool causal;
  double scale, dropout;
  uint64_t key;
  int64_t step;
  std::span<const int64_t> samples;  // of each row of the batch; empty: 0, 1, ...
};

inline int64_t operand_bytes(const AttentionCall& c) {
  return bytes_of_operands(c.q, c.k, c.v, c.out, c.log_sum_exp);
}

void attention(const AttentionCall& call);
void attention_backward(const AttentionCall& call, const Tensor& dout, const Tensor& dq, const Tensor& dk,
                        const Tensor& dv);

/// Fills `factors` (B, H, T_q, T_k) of f32 or f64 with what dropout multiplies the weights by.
void attention_dropout(const Tensor& factors, double dropout, uint64_t key, int64_t step,
                       std::span<const int64_t> samples);

/// Where a row of weights takes its random words: elements first .. first + n of a sample's mask.
struct MaskRow {
  uint64_t key, first, threshold;  // kept: word >= threshold
  uint32_t sample, step;
  double scale;  // of what is kept
};

// Rows of one block, per instruction set.
TESSERA_DECLARE_PER_ISA(
    // s <- softmax(scale s) over n elements; zeros up to `width`. Returns the log-sum-exp of the scaled row.
    float attention_weights_f32(float* s, int64_t n, int64_t width, float scale);
    double attention_weights_f64(double* s, int64_t n, int64_t width, double scale);
    // s <- exp(scale s - log_sum_exp) over n elements; zeros up to `width`.
    void attention_weights_again_f32(float* s, int64_t n, int64_t width, float scale, float log_sum_exp);
    void attention_weights_again_f64(double* s, int64_t n, int64_t width, double scale, double log_sum_exp);
    // ds <- p (ds - dot) scale over n elements; zeros up to `width`.
    void attention_slopes_f32(const float* p, float* ds, int64_t n, int64_t width, float dot, float scale);
    void attention_slopes_f64(const double* p, double* ds, int64_t n, int64_t width, double dot,
                              double scale);
    // The sum of a[i] b[i].
    float attention_dot_f32(const float* a, const float* b, int64_t n);
    double attention_dot_f64(const double* a, const double* b, int64_t n);
    // out <- in where kept, scaled; else 0.
    void attention_mask_f32(const MaskRow& row, const float* in, float* out, int64_t n);
    void attention_mask_f64(const MaskRow& row, const double* in, double* out, int64_t n);)

}  // namespace tessera::kernels::cpu
