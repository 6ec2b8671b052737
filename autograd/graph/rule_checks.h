#pragma once  // internal

#include "autograd/graph/node.h"

namespace tessera {

/// Throws AutogradError naming the operation when its saved values were freed by an earlier backward.
void require_not_released(const Node& node);

/// Checks the gradients that a rule returned against its inputs: count (AutogradError), shapes (ShapeError),
/// a floating dtype (DTypeError); in anomaly mode also NaN (NonFiniteError, naming the forward operation and
/// the element).
void check_gradients(const Node& node, Gradients& gradients);

/// Checks what a hook returned instead of `gradient`: equal shape (ShapeError), dtype (DTypeError) and device
/// (DeviceError). Errors name the Variable on which the hook was registered.
void check_replaced(const Node& node, const Node::Hook& hook, const Variable& gradient,
                    const Variable& replaced);

}  // namespace tessera
