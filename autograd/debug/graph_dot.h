#pragma once

#include <string>

#include "autograd/variable.h"

namespace tessera {

/// The graph behind `root` in Graphviz's DOT language: a box per operation with the shapes of its outputs and
/// the bytes it saves, an ellipse per leaf with its name; arrows point the way gradients flow. To draw it:
/// `dot -Tsvg graph.dot`.
std::string graph_dot(const Variable& root);

/// Bytes that the graph behind `root` holds as saved values, each storage counted once, without parameters.
int64_t saved_bytes(const Variable& root);

}  // namespace tessera
