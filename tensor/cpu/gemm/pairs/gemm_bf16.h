#pragma once  // internal

#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/gemm/sharing/shared_blocks.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// One bf16 product in the calling thread, where `multiplies_bf16_pairs()` (gemm_bf16_kernels.h). `bias` (n,
/// or null) is added before the one rounding. C is bf16 or f32.
template <class C>
void gemm_bf16(const Gemm<bfloat16, C>& gemm, const float* bias = nullptr);

/// The blocks of a product on tiles, of operands that are packed together, that up to `threads` threads
/// share: no more than its work is worth.
SharedGrid tile_grid(int64_t m, int64_t n, int64_t k, int64_t threads);

/// As `matmul` of tensor/cpu/matmul.h, for bf16 operands and a bf16 or f32 `out`, none of extent 0, where
/// `multiplies_bf16_pairs()`.
void matmul_bf16(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate);

}  // namespace tessera::kernels::cpu
