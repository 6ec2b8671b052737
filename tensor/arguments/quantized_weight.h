#pragma once

#include "tensor/tensor.h"

namespace tessera::ops {

/// A weight (out, in) as 8-bit integers with a scale for each row: w[j, p] = scales[j] * q[j, p].
struct QuantizedWeight {
  Tensor values;  ///< q (out, in), u8: a byte holds a signed integer from -127 to 127 in two's complement
  Tensor scales;  ///< (out), f32

  /// Whether there are values.
  bool defined() const { return values.defined(); }
};

}  // namespace tessera::ops
