#pragma once  // internal

#include "tensor/arguments/batch_norm.h"

/// Batch norm on CUDA devices, with the contract of tensor/cpu/images/batch_norm.h. The order of additions is
/// fixed: the bits are the same in every run; they are not the CPU's.
namespace tessera::kernels::cuda {

void batch_norm(const ops::BatchNormCall& call, const ops::BatchNormed& out);
void batch_norm_backward(const ops::BatchNormBackwardCall& call, const ops::BatchNormGradients& out);

}  // namespace tessera::kernels::cuda
