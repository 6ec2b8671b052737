#pragma once

#include "tensor/profile/operand_bytes.h"
#include "tensor/tensor.h"

namespace tessera::ops {

/// The results of a normalization: y, and for backward the mean and 1 / sqrt(variance + eps) of each row,
/// with the shape of the leading dimensions, in f32 for the half types. RMS norm has no mean. `sum` is the
/// input of the norm where a delta was added first; else undefined.
struct Normalized {
  /// `y`: x's shape and dtype. `rstd`: 1 / sqrt(variance + eps), for RMS norm 1 / sqrt(mean(x^2) + eps).
  /// @{
  Tensor y, mean, rstd;
  /// @}
  Tensor sum = {};  ///< x + dropout(delta), of x's shape and dtype; or undefined
};
/// The bytes of its tensors that are defined.
inline int64_t operand_bytes(const Normalized& n) {
  return bytes_of_operands(n.y, n.mean, n.rstd, n.sum);
}

/// The gradients of a normalization; see `normalization_backward`.
struct NormalizationGradients {
  /// `x`: x's shape and dtype; defined also where delta's was requested and there is no mask. `weight` and
  /// `bias`: the shape of the normalized dimensions; f32 for half types.
  /// @{
  Tensor x, weight, bias;
  /// @}
  Tensor delta = {};  ///< x's shape and dtype; without a mask the same tensor as `x`
};
/// The bytes of its tensors that are defined.
inline int64_t operand_bytes(const NormalizationGradients& g) {
  return bytes_of_operands(g.x, g.weight, g.bias, g.delta);
}

}  // namespace tessera::ops
