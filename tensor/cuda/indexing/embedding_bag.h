#pragma once  // internal

#include "tensor/tensor.h"

/// Bags of a table's rows on CUDA devices, with the contract and the results of
/// tensor/cpu/indexing/embedding_bag.h, but that offsets and ids that do not fit are errors when the host
/// next waits for the device (tensor/cuda/runtime/late_errors.h); until then such ids are left out.
namespace tessera::kernels::cuda {

void bag_bounds(const Tensor& offsets, int64_t ids, const Tensor& bounds);
void check_last_offset(const Tensor& offsets, int64_t ids);
void bag_of_each_id(const Tensor& bounds, const Tensor& bags);
void embedding_bag(const Tensor& ids, const Tensor& weight, const Tensor& bounds, const Tensor& factors,
                   const Tensor& out);
void embedding_bag_max_rows(const Tensor& ids, const Tensor& weight, const Tensor& bounds,
                            const Tensor& rows);

}  // namespace tessera::kernels::cuda
