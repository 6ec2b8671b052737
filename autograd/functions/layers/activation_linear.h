#pragma once

#include "autograd/variable.h"
#include "tensor/ops/layers/activation_linear.h"

namespace tessera {

/// y = f(x) W^T + b, the second half of a transformer's MLP: x (..., in), weight (out, in), bias (out) or
/// undefined. Saves x, and the weight where x's gradient is wanted; backward computes f(x) again, chunk by
/// chunk. The weight's gradient is added in place where its leaf has a buffer.
Variable activation_linear(Activation f, const Variable& x, const Variable& weight,
                           const Variable& bias = {});

}  // namespace tessera
