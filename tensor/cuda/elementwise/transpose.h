#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::kernels::cuda {

/// Copies through tiles in shared memory where the elements of source and target are neighbours along
/// different dimensions, so that both are read and written by whole sectors. False, and nothing is done,
/// where they are not, or where such a dimension is short.
bool copy_transposed(const Tensor& source, const Tensor& target);

}  // namespace tessera::kernels::cuda
