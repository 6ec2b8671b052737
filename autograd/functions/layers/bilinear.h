#pragma once

#include "autograd/variable.h"

namespace tessera {

/// y[..., o] = sum over i, j of x1[..., i] weight[o, i, j] x2[..., j], plus bias[o]: x1 (..., I), x2 (..., J)
/// with the same leading extents, weight (O, I, J), bias (O) or undefined. Two products, of which the first,
/// (..., O, J), is saved. Throws ShapeError for other shapes.
Variable bilinear(const Variable& x1, const Variable& x2, const Variable& weight, const Variable& bias = {});

}  // namespace tessera
