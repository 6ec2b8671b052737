#pragma once  // internal

#include <span>

#include "tensor/profile/operand_bytes.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// The operands and options of one call of the kernels. Operands are f32, f64 or, where
/// `attention_takes_bf16()`, bf16, with a last stride of 1; scale and samples are resolved.
struct AttentionCall {
  Tensor q, k, v, out, log_sum_exp;
  Tensor mask;  // (B, H, T_q, T_k) of any strides, bool or of log_sum_exp's dtype; undefined: none
  bool causal;
  double scale, dropout;
  uint64_t key;
  int64_t step;
  std::span<const int64_t> samples;          // the sample of each row of the batch; empty: 0, 1, ...
  int64_t window;                            // 0: none
  std::span<const double> slopes;            // ALiBi's, per head of q; empty: none
  std::span<const int64_t> first_positions;  // of query 0, per row of the batch; empty: T_k - T_q
};
inline int64_t operand_bytes(const AttentionCall& c) {
  return bytes_of_operands(c.q, c.k, c.v, c.mask, c.out, c.log_sum_exp);
}

/// Whether the kernels multiply bf16 operands directly; otherwise the caller widens them to f32.
bool attention_takes_bf16();

void attention(const AttentionCall& call);
void attention_backward(const AttentionCall& call, const Tensor& dout, const Tensor& dq, const Tensor& dk,
                        const Tensor& dv);

/// Fills `factors` (B, H, T_q, T_k), f32 or f64, with the factors that dropout applies to the weights.
void attention_dropout(const Tensor& factors, double dropout, uint64_t key, int64_t step,
                       std::span<const int64_t> samples);

}  // namespace tessera::kernels::cpu
