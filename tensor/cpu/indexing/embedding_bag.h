#pragma once  // internal

#include "tensor/tensor.h"

// Ids are in range; bag b has the ids from bounds[b] to before bounds[b + 1]; all tensors are contiguous.
namespace tessera::kernels::cpu {

/// out[b] = the sum over a bag's ids of factors[n] weight[ids[n]].
void embedding_bag(const Tensor& ids, const Tensor& weight, const Tensor& bounds, const Tensor& factors,
                   const Tensor& out);
/// rows[b, c] = the id of the largest weight[id, c] in bag b; the number of rows for an empty bag.
void embedding_bag_max_rows(const Tensor& ids, const Tensor& weight, const Tensor& bounds,
                            const Tensor& rows);

}  // namespace tessera::kernels::cpu
