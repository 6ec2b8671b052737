#pragma once  // internal

#include "tensor/arguments/gated.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// y = f(gate) x, and its gradients: (rows, n) of one floating dtype, with a last stride of 1.
void gated(Gate f, const Tensor& gate, const Tensor& x, const Tensor& y);
void gated_backward(Gate f, const Tensor& gate, const Tensor& x, const Tensor& dy, const Tensor& dgate,
                    const Tensor& dx);

}  // namespace tessera::kernels::cpu
