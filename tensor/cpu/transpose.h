#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"

namespace tessera::kernels::cpu {

/// to (columns, rows) = from (rows, columns) transposed, in the calling thread. Both are row-major, with rows
/// `from_leading` and `to_leading` elements apart, and do not overlap.
TESSERA_DECLARE_PER_ISA(void transpose_f32(const float* from, int64_t from_leading, int64_t rows,
                                           int64_t columns, float* to, int64_t to_leading);)

/// The same, by all threads, into a contiguous `to`.
void transpose_in_parallel(const float* from, int64_t from_leading, int64_t rows, int64_t columns, float* to);

}  // namespace tessera::kernels::cpu
