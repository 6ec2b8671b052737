#pragma once  // internal

#include "tensor/arguments/normalization_call.h"

namespace tessera::kernels::cpu {

using ops::NormalizationBackwardCall;
using ops::NormalizationCall;

/// Writes out.y and the statistics, and out.sum where delta is defined.
void normalization(const NormalizationCall& call, const ops::Normalized& out);

/// Recomputes y of the forward, with the same bits.
void recompute_normalized(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                          const Tensor& rstd, const Tensor& y);

/// Writes the gradients that are defined.
void normalization_backward(const NormalizationBackwardCall& call, const ops::NormalizationGradients& out);

}  // namespace tessera::kernels::cpu
