#pragma once  // internal

#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/isa.h"

namespace tessera::kernels::cpu {

// Eigen's products in the calling thread.
TESSERA_DECLARE_PER_ISA(void gemm_eigen_f32(const Gemm<float>& gemm);
                        void gemm_eigen_f64(const Gemm<double>& gemm);)

}  // namespace tessera::kernels::cpu
