#pragma once

#include "tensor/tensor.h"

namespace tessera {

/// The distances between the rows of x (n, d), i < j, in the order (0, 1), (0, 2), ...: n (n - 1) / 2 of
/// them. Takes the memory of `cdist`. Throws as that, and ShapeError for another rank.
Tensor pdist(const Tensor& x, double p = 2);

}  // namespace tessera
