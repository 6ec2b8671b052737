#pragma once  // internal

#include "autograd/variable.h"

namespace tessera {

/// The leaf's gradient if a rule may add to it in place; else null.
const Tensor* gradient_to_add_to(const VariableImpl& leaf);

/// The leaf's gradient buffer while it holds no gradient yet; else null.
const Tensor* empty_gradient_buffer(const VariableImpl& leaf);

/// Whether `x` is the only handle to its Variable, and `is_only_handle` holds for the tensor.
bool is_only_handle(const Variable& x);

/// Adds `gradient` to the leaf's, in the leaf's gradient dtype: in place, or as a recorded sum with
/// `create_graph`. A first gradient without another handle becomes the leaf's gradient without a copy.
void add_to_leaf(VariableImpl& leaf, Variable gradient, bool create_graph);

/// `total + gradient`, in place if `total` has no other handle.
Variable sum_gradients(Variable total, const Variable& gradient, bool create_graph);

}  // namespace tessera
