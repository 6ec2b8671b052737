#pragma once

#include <string>

#include "tensor/tensor.h"

namespace tessera::detail {

/// Row-major index of the first NaN; -1 when there is none, and for meta, integer and undefined tensors.
int64_t first_nan(const Tensor& values);
/// "(2, 0, 5)": the position of a row-major index.
std::string element_name(int64_t index, const Shape& shape);

}  // namespace tessera::detail
