#pragma once  // internal

#include <cstdint>
#include <span>

#include "tensor/types/dtype.h"

namespace tessera::kernels::cpu {

/// How several values become one.
enum class Combination : uint8_t { sum, mean, smallest, largest };

/// out[i] = the combination of sources[0][i], sources[1][i], ..., taken in this order, for `n` elements of
/// `dtype`. Accumulated in f32 (f64 for f64, i64 for integers and bool) and rounded once. A mean of integers
/// is truncated; smallest and largest of values with a NaN are NaN; a sum of bools is true when one of them
/// is. `out` may be one of the sources. Long arrays are divided among the calling thread's team. Throws
/// ValueError without sources.
void combine_sources(DType dtype, Combination combination, std::span<const void* const> sources, void* out,
                     int64_t n);

/// Copies `nbytes` bytes between arrays that do not overlap; many bytes in the calling thread's team.
void copy_bytes(void* to, const void* from, int64_t nbytes);

}  // namespace tessera::kernels::cpu
