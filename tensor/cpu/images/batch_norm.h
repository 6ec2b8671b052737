#pragma once  // internal

#include "tensor/arguments/batch_norm.h"

namespace tessera::kernels::cpu {

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
/// Writes out.y where that is defined, and the statistics where the call has none.
void batch_norm(const BatchNormCall& call, const ops::BatchNormed& out);

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
/// Writes those gradients of `out` that are defined.
void batch_norm_backward(const BatchNormBackwardCall& call, const ops::BatchNormGradients& out);

}  // namespace tessera::kernels::cpu
