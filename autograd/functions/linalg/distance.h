#pragma once

#include "autograd/variable.h"

/// Distances between rows, documented with those on Tensors in tensor/ops/linalg/distance.h and
/// tensor/composed/distances.h. `cdist` is declared in autograd/functions/composed.h.
namespace tessera {

/// The distances between the rows of x (n, d), i < j.
Variable pdist(const Variable& x, double p = 2);

}  // namespace tessera
