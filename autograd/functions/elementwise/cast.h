#pragma once

#include "autograd/variable.h"

namespace tessera {

/// The elements converted to `dtype` as by ops::cast; x itself if it has that dtype. The gradient is
/// converted back.
Variable cast(const Variable& x, DType dtype);

/// A contiguous copy in a new storage. The gradient is that of the copy.
Variable clone(const Variable& x);
/// x itself if it is contiguous, else a contiguous copy.
Variable contiguous(const Variable& x);

}  // namespace tessera
