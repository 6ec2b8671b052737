#pragma once

#include "autograd/variable.h"

namespace tessera {

/// The elements converted to `dtype` as ops::cast does; x itself when it already is. The gradient is
/// converted back.
Variable cast(const Variable& x, DType dtype);

}  // namespace tessera
