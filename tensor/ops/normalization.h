#pragma once

#include "tensor/profile/operand_bytes.h"
#include "tensor/tensor.h"

namespace tessera::ops {

/// What a normalization gives: the result, and per row the mean and 1 / sqrt(variance + eps) that backward
/// needs, of the leading dimensions' shape, in f32 for the half types. RMS norm has no mean.
struct Normalized {
  Tensor y, mean, rstd;
};
inline int64_t operand_bytes(const Normalized& n) {
  return bytes_of_operands(n.y, n.mean, n.rstd);
}

/// Normalizes the last `axes` dimensions of x together: y = (x - mean) / sqrt(variance + eps) * weight + bias
/// (Ba et al. 2016), where weight and bias are of the shape of these dimensions and x's dtype, and may be
/// undefined. Throws ShapeError, DTypeError.
Normalized layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5,
                      int64_t axes = 1);
/// y = x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019).
Normalized rms_norm(const Tensor& x, const Tensor& weight, double eps = 1e-5, int64_t axes = 1);

/// Which gradients a backward computes; the others stay undefined.
struct NormalizationWants {
  bool x = true, weight = true, bias = true;
};
struct NormalizationGradients {
  Tensor x, weight, bias;
};
inline int64_t operand_bytes(const NormalizationGradients& g) {
  return bytes_of_operands(g.x, g.weight, g.bias);
}

/// The gradients at x, weight and bias from the one at y and from what the forward gave; an undefined `mean`
/// says RMS norm. Rows are added up in fixed groups, so that no bit depends on the number of threads; for the
/// half types those sums, the gradients of weight and bias, are f32.
NormalizationGradients normalization_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                              const Tensor& mean, const Tensor& rstd, int64_t axes,
                                              NormalizationWants wants = {});

}  // namespace tessera::ops
