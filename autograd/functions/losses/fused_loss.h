#pragma once  // internal

#include "autograd/functions/layers/loss.h"
#include "tensor/arguments/elementwise_loss.h"

namespace tessera {

/// A loss of single elements, reduced (tensor/ops/losses/elementwise_loss.h), in f32 under autocast. Operands
/// are promoted to one dtype. Saves x and target. The gradient is one pass, except that of a target whose
/// derivative is not minus that of x, and derivatives of gradients: those are made of other functions.
Variable fused_loss(const ElementwiseLoss& f, const Variable& x, const Variable& target,
                    LossReduction reduction);

}  // namespace tessera
