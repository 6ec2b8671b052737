#pragma once

#include "autograd/node.h"

namespace tessera {

/// Throws AutogradError naming the operation when its saved values were freed by an earlier backward.
void require_not_released(const Node& node);

/// Holds what a rule returned against the inputs: their number (AutogradError), shapes (ShapeError), a
/// floating dtype (DTypeError); in anomaly mode also NaN (NonFiniteError, naming the forward operation and
/// the element).
void check_gradients(const Node& node, Gradients& gradients);

}  // namespace tessera
