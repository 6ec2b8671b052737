#pragma once  // internal

#include "tensor/tensor.h"

// Ids are in range; bag b has the ids from bounds[b] to before bounds[b + 1]; all tensors are contiguous.
namespace tessera::kernels::cpu {

/// bounds (B + 1) = the offsets (B) and the number of ids. Throws ValueError for offsets that do not begin
/// with 0, fall, or pass that number.
void bag_bounds(const Tensor& offsets, int64_t ids, const Tensor& bounds);
/// Throws ValueError where the last offset is not the number of ids.
void check_last_offset(const Tensor& offsets, int64_t ids);
/// bags[n] = the bag of id n.
void bag_of_each_id(const Tensor& bounds, const Tensor& bags);

/// out[b] = the sum over a bag's ids of factors[n] weight[ids[n]].
void embedding_bag(const Tensor& ids, const Tensor& weight, const Tensor& bounds, const Tensor& factors,
                   const Tensor& out);
/// rows[b, c] = the id of the largest weight[id, c] in bag b; the number of rows for an empty bag.
void embedding_bag_max_rows(const Tensor& ids, const Tensor& weight, const Tensor& bounds,
                            const Tensor& rows);

}  // namespace tessera::kernels::cpu
