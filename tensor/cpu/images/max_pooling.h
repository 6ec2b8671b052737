#pragma once  // internal

#include "tensor/arguments/pooling.h"

namespace tessera::kernels::cpu {

/// The largest element of each window of each plane of x, and its index in the plane (i64); all contiguous.
void max_pool(const Tensor& x, const ops::WindowAxes& axes, const Tensor& values, const Tensor& indices);
/// dx, with every dy added at its index in its plane; all contiguous. `dy` and `indices` are (planes,
/// windows) in any shape, dx (planes, plane) in any shape.
void max_pool_backward(const Tensor& dy, const Tensor& indices, int64_t planes, const Tensor& dx);

}  // namespace tessera::kernels::cpu
