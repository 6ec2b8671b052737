#pragma once

#include "tensor/arguments/dropout.h"
#include "tensor/arguments/normalization.h"

namespace tessera::ops {

/// The operands of a normalization, all contiguous; each element of rstd belongs to one row. Without a mean
/// the norm is RMS norm. An undefined delta adds nothing, a null mask drops nothing.
struct NormalizationCall {
  Tensor x;                           ///< the rows
  Tensor delta;                       ///< added to x before the norm, after its dropout
  const DropoutRows* mask = nullptr;  ///< of delta
  Tensor weight;                      ///< the scale of each column, or undefined
  Tensor bias;                        ///< the shift of each column, or undefined
  double eps = 0;                     ///< added to the variance
};
/// The bytes of its tensors that are defined.
inline int64_t operand_bytes(const NormalizationCall& c) {
  return bytes_of_operands(c.x, c.delta, c.weight, c.bias);
}

/// The operands of a normalization's backward. `dsum` is added to the gradient at the sum; undefined:
/// nothing.
struct NormalizationBackwardCall {
  Tensor dy;                          ///< the gradient at the result
  Tensor dsum;                        ///< the gradient at the sum besides
  const DropoutRows* mask = nullptr;  ///< of delta
  Tensor x;                           ///< the rows that were normalized
  Tensor weight;                      ///< the scale of each column, or undefined
  Tensor mean;                        ///< of each row; undefined for RMS norm
  Tensor rstd;                        ///< 1 / sqrt(variance + eps) of each row
};
/// The bytes of its tensors that are defined.
inline int64_t operand_bytes(const NormalizationBackwardCall& c) {
  return bytes_of_operands(c.dy, c.dsum, c.x, c.weight, c.mean, c.rstd);
}

}  // namespace tessera::ops
