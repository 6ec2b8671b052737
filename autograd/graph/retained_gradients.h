#pragma once  // internal

#include "autograd/graph/node.h"

namespace tessera {

/// Adds the gradients of a node's outputs to those that its Variables retain (`retain_grad`).
void retain_gradients(const Node& node, const InlineVector<Variable, 1>& gradients, bool create_graph);

}  // namespace tessera
