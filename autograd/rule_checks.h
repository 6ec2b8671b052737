#pragma once

#include "autograd/node.h"

namespace tessera {

/// Throws AutogradError naming the operation when its saved values were freed by an earlier backward.
void require_not_released(const Node& node);

/// Holds what a rule returned against the inputs: their number (AutogradError), shapes (ShapeError), a
/// floating dtype (DTypeError); in anomaly mode also NaN (NonFiniteError, naming the forward operation and
/// the element).
void check_gradients(const Node& node, Gradients& gradients);

/// Holds what a hook returned in the place of `gradient` against it: shape (ShapeError), dtype (DTypeError),
/// device (DeviceError). Errors name the Variable that the hook was registered on.
void check_replaced(const Node& node, const Node::Hook& hook, const Variable& gradient,
                    const Variable& replaced);

}  // namespace tessera
