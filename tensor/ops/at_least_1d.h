#pragma once

#include "tensor/tensor.h"

namespace tessera::ops {

/// A 0-dim tensor as a row of one element, as kernels along a dimension take it; any other tensor itself.
inline Tensor at_least_1d(const Tensor& x) {
  return x.ndim() == 0 ? x.view({1}) : x;
}

}  // namespace tessera::ops
