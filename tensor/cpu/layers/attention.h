#pragma once  // internal

#include "tensor/arguments/attention_call.h"

namespace tessera::kernels::cpu {

using ops::AttentionCall;

/// Whether the kernels multiply bf16 operands directly, or those of the forward with so many queries do;
/// otherwise the caller widens them to f32, as f16.
/// @{
bool attention_takes_bf16();
bool attention_takes_bf16(int64_t queries, double dropout);
/// @}

void attention(const AttentionCall& call);
void attention_backward(const AttentionCall& call, const Tensor& dout, const Tensor& dq, const Tensor& dk,
                        const Tensor& dv);

/// Fills `factors` (B, H, T_q, T_k), f32 or f64, with the factors that dropout applies to the weights.
void attention_dropout(const Tensor& factors, double dropout, uint64_t key, int64_t step,
                       std::span<const int64_t> samples);

}  // namespace tessera::kernels::cpu
