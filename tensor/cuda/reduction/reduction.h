#pragma once  // internal

#include "tensor/arguments/reduction.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cuda {

/// Reduces x to `out`, as kernels::cpu::reduce does (tensor/cpu/reduction.h). The order of additions is
/// fixed, so the bits are the same in every run; they are not the CPU's.
void reduce(ops::Reduction kind, double parameter, const Tensor& x, const Tensor& out);

}  // namespace tessera::kernels::cuda
