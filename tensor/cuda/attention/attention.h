#pragma once  // internal

#include "tensor/arguments/attention_call.h"

/// Fused attention on CUDA devices, with the contract of tensor/cpu/layers/attention.h, for every floating
/// dtype.
namespace tessera::kernels::cuda {

/// Writes out and log_sum_exp.
void attention(const ops::AttentionCall& call);
/// Writes the gradients of q, k and v: the same bits in every run.
void attention_backward(const ops::AttentionCall& call, const Tensor& dout, const Tensor& dq,
                        const Tensor& dk, const Tensor& dv);
/// Fills `factors` (B, H, T_q, T_k), f32 or f64, with the factors that dropout applies to the weights: the
/// CPU's bits.
void attention_dropout(const Tensor& factors, double dropout, uint64_t key, int64_t step,
                       std::span<const int64_t> samples);

}  // namespace tessera::kernels::cuda
