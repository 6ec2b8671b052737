#pragma once

#include "tensor/cpu/gemm.h"
#include "tensor/cpu/isa.h"
#include "tensor/ops/matmul.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// Whether this build has oneDNN.
bool onednn_built();

/// The highest instruction set that oneDNN uses: what the processor has, lowered to isa_limit() by the first
/// call here, which no primitive precedes. At `baseline` that is SSE4.1, oneDNN's least.
Isa onednn_isa();

/// Whether oneDNN is built in and keeps within isa_limit(). It does not where the program has called oneDNN
/// before Tessera did, too late for a lower limit: Eigen multiplies then.
bool onednn_serves();

/// What multiplies bf16: oneDNN, our kernels for vectors, or f32 products around conversions.
enum class Bf16Product : uint8_t { onednn, pairs, through_f32 };
/// The choice under `isa` for products, and `onednn`, the set that oneDNN uses (`baseline` without oneDNN).
/// oneDNN alone knows tiles, at four times the rate of vectors; on vectors our own kernels are the faster
/// ones.
Bf16Product choose_bf16_product(MatmulBackend backend, Isa isa, Isa onednn);
/// The choice here and now.
Bf16Product bf16_product();

/// An f32 product in the calling thread.
void gemm_onednn_f32(const Gemm<float>& gemm);

/// As `matmul` of tensor/cpu/matmul.h, for bf16 operands and a bf16 or f32 `out`, none of extent 0. Threads
/// share out the columns or rows of `out`.
void matmul_onednn_bf16(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                        bool accumulate);

}  // namespace tessera::kernels::cpu
