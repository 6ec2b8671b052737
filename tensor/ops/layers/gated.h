#pragma once

#include "tensor/arguments/gated.h"
#include "tensor/tensor.h"

namespace tessera {

/// "sigmoid", "silu", "gelu", "gelu_tanh" or "relu".
const char* to_string(Gate f);

namespace ops {

/// f(gate) x element by element, in one pass: both of one shape and floating dtype. Throws ShapeError,
/// DTypeError.
Tensor gated(Gate f, const Tensor& gate, const Tensor& x);
/// Writes dy x f'(gate) into `dgate` and dy f(gate) into `dx`, in one pass; these have the operands' shape
/// and a last stride of 1, such as the halves of one tensor. Throws as `gated`, and ValueError where a
/// gradient overlaps an operand or the other gradient.
void gated_backward(Gate f, const Tensor& gate, const Tensor& x, const Tensor& dy, const Tensor& dgate,
                    const Tensor& dx);

/// The gated linear unit of one tensor (Dauphin et al. 2017): the first half of x along `dim` times the
/// sigmoid of the second, without copies of the halves. Throws ShapeError for an odd dimension.
Tensor glu(const Tensor& x, int64_t dim = -1);
/// The gradient of `glu`, from x and the gradient of its result.
Tensor glu_backward(const Tensor& x, const Tensor& dy, int64_t dim = -1);

}  // namespace ops
}  // namespace tessera
