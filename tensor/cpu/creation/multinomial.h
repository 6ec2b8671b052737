#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// Draws out (..., count) i64 from each row of weights (..., classes) f64, by the uniform numbers u (...,
/// count) f64: the index at which the running sum passes u times the total. Without replacement a drawn
/// weight becomes 0, in `weights` itself. All are contiguous. Throws ValueError for a weight that is negative
/// or not finite, and for too few positive ones.
void multinomial(const Tensor& weights, const Tensor& u, bool replacement, const Tensor& out);

}  // namespace tessera::kernels::cpu
