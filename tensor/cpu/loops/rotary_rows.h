#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"
#include "tensor/types/dtype.h"

namespace tessera::kernels::cpu {

/// y <- x with `pairs` pairs of its elements turned by angles of which the cosines and sines are given in the
/// dtype's accumulator. x and y, of 2 `pairs` contiguous elements of one floating dtype, do not overlap.
/// Pairs are neighbours, or an element of the first half and one of the second.
using RotateRow = void (*)(const void* x, const void* cosines, const void* sines, int64_t pairs, void* y);

TESSERA_DECLARE_PER_ISA(RotateRow rotate_row(bool neighbours, DType dtype);)

}  // namespace tessera::kernels::cpu
