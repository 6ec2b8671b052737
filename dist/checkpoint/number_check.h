#pragma once

#include <cstdint>

#include "tensor/types/dtype.h"

namespace tessera::dist {

/// The first of `n` elements that no tensor should hold: a NaN, or a bool that is neither 0 nor 1; -1 when
/// all are good.
int64_t first_bad_number(DType dtype, const void* data, int64_t n);
/// "NaN", or what is wrong with a bool.
const char* bad_number_name(DType dtype);

}  // namespace tessera::dist
