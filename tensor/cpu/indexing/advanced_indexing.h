#pragma once  // internal

#include "tensor/tensor.h"

// Elements that index tensors address. A position is a row-major index over neighbouring dimensions `first`
// to `first + count - 1` of a tensor, so that one i64 stands for the coordinates along all of them. Positions
// are contiguous.
namespace tessera::kernels::cpu {

/// positions[i] = positions[i] times `extent` plus index[i], or index[i] alone if `replace`. `index` is
/// contiguous, i64 or i32; negative values count from the end. Throws IndexError naming `where`, `entry` (of
/// the list of indices), the first value outside [-extent, extent), its place and the limits.
void add_coordinate(const char* where, int entry, const Tensor& index, int64_t extent, bool replace,
                    const Tensor& positions);

/// Makes `positions` (n), the row-major indices of the true elements of a contiguous mask, in rising order.
void true_positions(const Tensor& mask, Tensor& positions);
/// coordinates[i] = those of element positions[i] of a tensor of shape `shape`; coordinates (n, ndim) is
/// contiguous.
void unravel(const Tensor& positions, const Shape& shape, const Tensor& coordinates);

/// out[before, i, after] = x[before, positions[i], after]; out is contiguous, x has any strides.
void read_positions(const Tensor& x, int first, int count, const Tensor& positions, const Tensor& out);
/// out[before, positions[i], after] = value[before, i, after], the value of the last i for a repeated
/// position, for any number of threads. The dimensions of i in `value` are those of `positions`; both have
/// any strides.
void write_positions(const Tensor& value, const Tensor& positions, int first, int count, const Tensor& out);

}  // namespace tessera::kernels::cpu
