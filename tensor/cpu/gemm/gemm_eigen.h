#pragma once  // internal

#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/isa.h"
#include "tensor/types/float_types.h"

namespace tessera::kernels::cpu {

// Eigen's products in the calling thread, and the conversions for bf16 and f16 operands.
TESSERA_DECLARE_PER_ISA(void gemm_eigen_f32(const Gemm<float>& gemm);
                        void gemm_eigen_f64(const Gemm<double>& gemm);
                        void widen_bf16(const bfloat16* from, int64_t count, float* to);
                        void widen_f16(const float16* from, int64_t count, float* to);
                        void narrow_bf16(const float* from, int64_t count, bfloat16* to);
                        void narrow_f16(const float* from, int64_t count, float16* to);)

}  // namespace tessera::kernels::cpu
