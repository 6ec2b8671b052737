#pragma once  // internal

#include "tensor/arguments/dropout.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cuda {

/// y = base + dropout(x), or dropout(x) where `base` is undefined. All contiguous, of one dtype; the mask is
/// the CPU's, and so are the bits.
void dropout(const Tensor& base, const Tensor& x, const ops::DropoutRows& rows, const Tensor& y);

}  // namespace tessera::kernels::cuda
