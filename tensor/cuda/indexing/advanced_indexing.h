#pragma once  // internal

#include "tensor/tensor.h"

/// Elements that index tensors address, on CUDA devices, with the contract of
/// tensor/cpu/indexing/advanced_indexing.h, but that a value outside its range is an error when the host next
/// waits for the device (tensor/cuda/runtime/late_errors.h). Its position is -1: what it reads is zeros, and
/// what it writes is nothing.
namespace tessera::kernels::cuda {

void add_coordinate(const char* where, int entry, const Tensor& index, int64_t extent, bool replace,
                    const Tensor& positions);
/// Waits for the device: the number of the positions is a shape.
void true_positions(const Tensor& mask, Tensor& positions);
void unravel(const Tensor& positions, const Shape& shape, const Tensor& coordinates);
void read_positions(const Tensor& x, int first, int count, const Tensor& positions, const Tensor& out);
void write_positions(const Tensor& value, const Tensor& positions, int first, int count, const Tensor& out);

}  // namespace tessera::kernels::cuda
