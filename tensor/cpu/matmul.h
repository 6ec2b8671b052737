#pragma once  // internal

#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/gemm/product_choice.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// out (batch..., m, n) = a (batch..., m, k) b (batch..., k, n) + bias (n); with `accumulate` it is added to
/// `out`. All have as many dimensions. `out` is row-major in its last two dimensions, operands have a
/// `matrix_layout`, and their batch dimensions may have stride 0. `bias` is contiguous or undefined.
void matmul(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out, bool accumulate);

/// An f32 product by what `f32_product` (tensor/cpu/gemm/product_choice.h) chooses, in the calling thread.
void gemm_f32(const Gemm<float>& gemm);
/// The same by the kernel that was chosen for a larger product, of which this is a block.
void gemm_f32_by(F32Product product, const Gemm<float>& gemm);

}  // namespace tessera::kernels::cpu
