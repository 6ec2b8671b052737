#pragma once

#include "autograd/variable.h"

namespace tessera {

/// The leaf's gradient buffer when a rule may add into it (it exists, with numbers of its own); else null.
const Tensor* accumulation_buffer(const VariableImpl& leaf);

/// The leaf's home for a first gradient, when that is what comes next; else null.
const Tensor* gradient_home(const VariableImpl& leaf);

/// Whether the handle is the only way to these numbers.
bool is_sole_owner(const Variable& x);

/// Adds `gradient` to the leaf's, in the leaf's gradient dtype: in place, or as a recorded sum with
/// `create_graph`. A first gradient that nobody else holds becomes the buffer without a copy.
void add_to_leaf(VariableImpl& leaf, Variable gradient, bool create_graph);

/// `held + gradient`, into `held` itself when nobody else can see it.
Variable sum_gradients(Variable held, const Variable& gradient, bool create_graph);

}  // namespace tessera
