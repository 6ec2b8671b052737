#pragma once  // internal

#include "autograd/graph/node.h"

namespace tessera {

/// Calls the hooks of a node's outputs with the gradients that arrived, which they may replace.
void call_gradient_hooks(const Node& node, InlineVector<Variable, 1>& gradients);

/// Whether a hook of the operation is called after its rule: the rule then returns all gradients.
bool has_hooks_after_rule(const Node& node);

/// Calls the hooks of the operation that come before its rule. Returns the grad_outputs, which they may have
/// replaced.
InlineVector<Variable, 1> after_hooks_before_rule(const Node& node, InlineVector<Variable, 1> grad_outputs);

/// Calls the hooks of the operation that come after its rule; they may replace `grad_inputs`.
void call_hooks_after_rule(const Node& node, Gradients& grad_inputs,
                           const InlineVector<Variable, 1>& grad_outputs);

}  // namespace tessera
