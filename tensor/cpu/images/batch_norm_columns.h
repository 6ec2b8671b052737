#pragma once  // internal

#include "tensor/cpu/images/batch_norm.h"

/// Batch norm of channels-last tensors. Blocks of positions have sums of their own, merged in order in f64:
/// they do not depend on the number of threads.
namespace tessera::kernels::cpu {

/// As `batch_norm`, for an x of at least one value.
void batch_norm_columns(const BatchNormCall& call, const ops::BatchNormed& out);
/// As `batch_norm_backward`, for an x of at least one value.
void batch_norm_columns_backward(const BatchNormBackwardCall& call, const ops::BatchNormGradients& out);

}  // namespace tessera::kernels::cpu
