#pragma once

#include "tensor/profile/operand_bytes.h"
#include "tensor/tensor.h"

namespace tessera::ops {

/// The results of a batch norm of x (N, C, ...). The statistics are of shape (C), in f32 for the half types.
struct BatchNormed {
  Tensor y;  ///< x's shape and dtype
  /// The mean of each channel, its variance over n values (not n - 1), and 1 / sqrt(variance + epsilon).
  /// @{
  Tensor mean, variance, rstd;
  /// @}
};
/// The bytes of its tensors that are defined.
inline int64_t operand_bytes(const BatchNormed& n) {
  return bytes_of_operands(n.y, n.mean, n.variance, n.rstd);
}

/// The gradients of a batch norm; see `batch_norm_backward`.
struct BatchNormGradients {
  /// `x`: x's shape and dtype. `weight` and `bias`: (C), in f32 for the half types.
  /// @{
  Tensor x, weight, bias;
  /// @}
  Tensor added = {};  ///< that of the tensor that was added before the relu; x's shape and dtype
};
/// The bytes of its tensors that are defined.
inline int64_t operand_bytes(const BatchNormGradients& g) {
  return bytes_of_operands(g.x, g.weight, g.bias, g.added);
}

}  // namespace tessera::ops
