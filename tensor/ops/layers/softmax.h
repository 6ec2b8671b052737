#pragma once

#include "tensor/tensor.h"

/// Softmax over dimension `dim` of any floating tensor; half types are computed in f32 and rounded once. All
/// throw DTypeError for other types, IndexError for a dimension outside x.
namespace tessera::ops {

/// exp(x - max) / sum: rows of any magnitude have a sum of 1. A row of minus infinities only, or with a plus
/// infinity, is NaN, as 0/0 and inf/inf are.
Tensor softmax(const Tensor& x, int64_t dim = -1);
/// log(softmax(x)), without the loss of small probabilities.
Tensor log_softmax(const Tensor& x, int64_t dim = -1);

/// The gradient at x, given the softmax y and its gradient dy: y (dy - sum(y dy)).
Tensor softmax_backward(const Tensor& y, const Tensor& dy, int64_t dim = -1);
/// The gradient at x, given the log-softmax y and its gradient dy: dy - exp(y) sum(dy).
Tensor log_softmax_backward(const Tensor& y, const Tensor& dy, int64_t dim = -1);

}  // namespace tessera::ops
