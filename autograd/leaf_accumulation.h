#pragma once

#include "autograd/variable.h"

namespace tessera {

/// The leaf's gradient, where a rule may add to it in place; else null.
const Tensor* gradient_to_add_to(const VariableImpl& leaf);

/// The leaf's gradient buffer while it holds no gradient yet; else null.
const Tensor* empty_gradient_buffer(const VariableImpl& leaf);

/// Whether the handle is the only way to these numbers.
bool is_sole_owner(const Variable& x);

/// Adds `gradient` to the leaf's, in the leaf's gradient dtype: in place, or as a recorded sum with
/// `create_graph`. A first gradient that nobody else holds becomes the buffer without a copy.
void add_to_leaf(VariableImpl& leaf, Variable gradient, bool create_graph);

/// `held + gradient`, into `held` itself when nobody else can see it.
Variable sum_gradients(Variable held, const Variable& gradient, bool create_graph);

}  // namespace tessera
