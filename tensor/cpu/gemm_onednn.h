#pragma once

#include "tensor/cpu/gemm.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// Whether this build has oneDNN.
bool onednn_built();

/// Whether the processor multiplies bf16 itself and oneDNN may use it.
bool onednn_multiplies_bf16();

/// Whether it does so in tiles (AMX), at four times the rate of vectors.
bool onednn_has_tiles();

/// An f32 product in the calling thread.
void gemm_onednn_f32(const Gemm<float>& gemm);

/// As `matmul` of tensor/cpu/matmul.h, for bf16 operands and a bf16 or f32 `out`, none of extent 0. Threads
/// share out the columns or rows of `out`.
void matmul_onednn_bf16(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                        bool accumulate);

}  // namespace tessera::kernels::cpu
