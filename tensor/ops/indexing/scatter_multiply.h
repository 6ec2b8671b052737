#pragma once

#include "tensor/tensor.h"

namespace tessera::ops {

/// `scatter_add` with a product in place of the sum: result[i][index[i][j][k]][k] *= source[i][j][k] for
/// dim = 1, in the order of the positions along `dim`. Throws as `scatter_add`.
Tensor scatter_multiply(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);

}  // namespace tessera::ops
