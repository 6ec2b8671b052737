#pragma once

#include "autograd/variable.h"

namespace tessera {

/// The elements converted to `dtype` as by ops::cast; x itself if it has that dtype. The gradient is
/// converted back.
Variable cast(const Variable& x, DType dtype);

}  // namespace tessera
