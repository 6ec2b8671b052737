#pragma once  // internal

#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/isa.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// Whether this build has oneDNN.
bool onednn_built();

/// The highest instruction set that oneDNN uses: the processor's, lowered to isa_limit() by the first call of
/// this function, before any primitive is made. `baseline` is SSE4.1, oneDNN's lowest.
Isa onednn_isa();

/// Whether oneDNN is built in and keeps to isa_limit(). It does not where the program called oneDNN before
/// Tessera, which is too late to lower the limit; Eigen is used then.
bool onednn_serves();

/// An f32 product in the calling thread.
void gemm_onednn_f32(const Gemm<float>& gemm);

/// As `matmul` of tensor/cpu/matmul.h, for bf16 operands and a bf16 or f32 `out`, none of extent 0. Threads
/// share the columns or rows of `out`.
void matmul_onednn_bf16(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                        bool accumulate);

}  // namespace tessera::kernels::cpu
