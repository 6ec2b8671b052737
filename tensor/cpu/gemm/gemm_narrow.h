#pragma once  // internal

#include "tensor/cpu/gemm/gemm.h"
#include "tensor/types/float_types.h"

namespace tessera::kernels::cpu {

/// A product of bf16 or f16 in the calling thread, through `gemm_f32`: tiles of both operands are widened to
/// f32 (exactly), products are summed over all of k in an f32 tile and rounded once. C is the operands' type
/// or f32.
template <class T, class C>
void gemm_narrow(const Gemm<T, C>& gemm, void (*gemm_f32)(const Gemm<float>&));

}  // namespace tessera::kernels::cpu
