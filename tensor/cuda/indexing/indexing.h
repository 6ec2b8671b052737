#pragma once  // internal

#include <optional>

#include "tensor/tensor.h"

/// Reading and writing by index on CUDA devices, with the contract of tensor/cpu/indexing/indexing.h, but
/// that an index outside its range is an error when the host next waits for the device
/// (tensor/cuda/runtime/late_errors.h): until then what it reads is zeros, and what it writes is nothing.
namespace tessera::kernels::cuda {

void check_indices(const char* where, const Tensor& index, int64_t limit);
void check_class_targets(const char* where, const Tensor& targets, int64_t classes,
                         std::optional<int64_t> ignored);
void index_select(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& out);
void index_add(const Tensor& source, int64_t dim, const Tensor& index, const Tensor& out);
void gather(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& out);
void scatter(const Tensor& source, const Tensor& index, const Tensor& out);
void scatter_add(const Tensor& source, const Tensor& index, const Tensor& out);
void scatter_multiply(const Tensor& source, const Tensor& index, const Tensor& out);

}  // namespace tessera::kernels::cuda
