#pragma once

#include "tensor/arguments/elementwise_loss.h"
#include "tensor/arguments/loss.h"

namespace tessera::ops {

/// The losses of the elements of x and `target`, which have one shape and one floating dtype: each, of x's
/// shape, or their sum or mean (NaN over nothing), 0-dim, without a tensor of the single ones. Throws
/// ShapeError, DTypeError; ValueError for an unknown reduction.
Tensor elementwise_loss(const ElementwiseLoss& f, const Tensor& x, const Tensor& target,
                        LossReduction reduction);

/// The gradient at x, given the gradient `dloss` at the loss.
Tensor elementwise_loss_backward(const ElementwiseLoss& f, const Tensor& dloss, const Tensor& x,
                                 const Tensor& target, LossReduction reduction);

}  // namespace tessera::ops
