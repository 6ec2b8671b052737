#pragma once  // internal

#include "tensor/arguments/dropout.h"
#include "tensor/arguments/normalization.h"

namespace tessera::kernels::cpu {

/// The operands of a normalization, all contiguous; each element of rstd belongs to one row. Without a mean
/// the norm is RMS norm. An undefined delta adds nothing, a null mask drops nothing.
struct NormalizationCall {
  Tensor x, delta;
  const ops::DropoutRows* mask = nullptr;
  Tensor weight, bias;
  double eps = 0;
};
inline int64_t operand_bytes(const NormalizationCall& c) {
  return bytes_of_operands(c.x, c.delta, c.weight, c.bias);
}

/// Writes out.y and the statistics, and out.sum where delta is defined.
void normalization(const NormalizationCall& call, const ops::Normalized& out);

/// Recomputes y of the forward, with the same bits.
void recompute_normalized(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                          const Tensor& rstd, const Tensor& y);

/// The operands of a normalization's backward. `dsum` is added to the gradient at the sum; undefined:
/// nothing.
struct NormalizationBackwardCall {
  Tensor dy, dsum;
  const ops::DropoutRows* mask = nullptr;
  Tensor x, weight, mean, rstd;
};
inline int64_t operand_bytes(const NormalizationBackwardCall& c) {
  return bytes_of_operands(c.dy, c.dsum, c.x, c.weight, c.mean, c.rstd);
}

/// Writes the gradients that are defined.
void normalization_backward(const NormalizationBackwardCall& call, const ops::NormalizationGradients& out);

}  // namespace tessera::kernels::cpu
