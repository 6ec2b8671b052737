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

/// The operands of a batch norm of x (N, C, ...), and weight and bias (C) or undefined. x and out.y are
/// contiguous or both channels_last. With a mean and rstd these are taken; without, those of x are computed.
struct BatchNormCall {
  Tensor x, weight, bias, mean, rstd;
  double epsilon = 0;
  bool relu = false;  ///< y is max(y, 0)
  Tensor added = {};  ///< like x, channels_last, or undefined: a sum before the relu
};
inline int64_t operand_bytes(const BatchNormCall& c) {
  return bytes_of_operands(c.x, c.weight, c.bias, c.mean, c.rstd, c.added);
}

/// The operands of its backward; dy, x and out.x are contiguous or all channels_last. `sum_dy` and
/// `sum_along`, where they are defined, are the sums over all `count` values of a channel, of dy and of dy
/// times the normalized x; else the kernel computes those of x. Without `by_statistics` the mean and variance
/// are constants.
struct BatchNormBackwardCall {
  Tensor dy, x, weight, bias, mean, rstd, sum_dy, sum_along;
  double count = 0;
  bool relu = false;
  bool by_statistics = true;
  /// The forward's result where it added something, channels_last: what passes its relu is out.added.
  Tensor y = {};
};
inline int64_t operand_bytes(const BatchNormBackwardCall& c) {
  return bytes_of_operands(c.dy, c.x, c.weight, c.bias, c.mean, c.rstd, c.sum_dy, c.sum_along, c.y);
}

}  // namespace tessera::ops
