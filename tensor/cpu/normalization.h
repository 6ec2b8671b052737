#pragma once

#include "tensor/ops/normalization.h"

namespace tessera::kernels::cpu {

/// What a normalization reads. All contiguous; a row is what one element of rstd stands for. An undefined
/// mean asks for RMS norm; an undefined delta adds nothing, an undefined mask drops nothing.
struct NormalizationCall {
  Tensor x, delta;
  const DropoutRows* mask = nullptr;
  Tensor weight, bias;
  double eps = 0;
};
inline int64_t operand_bytes(const NormalizationCall& c) {
  return bytes_of_operands(c.x, c.delta, c.weight, c.bias);
}

/// Writes out.y and the statistics, and out.sum where something is added.
void normalization(const NormalizationCall& call, const ops::Normalized& out);

/// y of the forward again, the same bits.
void normalization_again(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                         const Tensor& rstd, const Tensor& y);

/// What a normalization's backward reads. `dsum` is added to the gradient at the sum; undefined: nothing.
struct NormalizationBackwardCall {
  Tensor dy, dsum;
  const DropoutRows* mask = nullptr;
  Tensor x, weight, mean, rstd;
};
inline int64_t operand_bytes(const NormalizationBackwardCall& c) {
  return bytes_of_operands(c.dy, c.dsum, c.x, c.weight, c.mean, c.rstd);
}

/// Fills the gradients that are defined.
void normalization_backward(const NormalizationBackwardCall& call, const ops::NormalizationGradients& out);

}  // namespace tessera::kernels::cpu
