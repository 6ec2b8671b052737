#pragma once  // internal

#include <cstdint>

#include "tensor/types/dtype.h"

namespace tessera::dist {

/// The index of the first of `n` elements that is a NaN, or a bool that is neither 0 nor 1; -1 when there is
/// none.
int64_t first_invalid_value(DType dtype, const void* data, int64_t n);
/// "NaN", or "a bool that is neither 0 nor 1".
const char* bad_value_name(DType dtype);

}  // namespace tessera::dist
