#pragma once

#include "tensor/ops/dropout.h"
#include "tensor/profile/operand_bytes.h"

namespace tessera::ops {

/// What a normalization gives: the result, and per row the mean and 1 / sqrt(variance + eps) that backward
/// needs, of the leading dimensions' shape, in f32 for the half types. RMS norm has no mean. `sum` is what
/// was normalized, where something was added first; else undefined.
struct Normalized {
  Tensor y, mean, rstd;
  Tensor sum = {};
};
inline int64_t operand_bytes(const Normalized& n) {
  return bytes_of_operands(n.y, n.mean, n.rstd, n.sum);
}

/// Normalizes the last `axes` dimensions of x together: y = (x - mean) / sqrt(variance + eps) * weight + bias
/// (Ba et al. 2016), where weight and bias are of the shape of these dimensions and x's dtype, and may be
/// undefined. Throws ShapeError, DTypeError.
Normalized layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5,
                      int64_t axes = 1);
/// y = x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019).
Normalized rms_norm(const Tensor& x, const Tensor& weight, double eps = 1e-5, int64_t axes = 1);

/// A residual addition and the norm that follows, in one pass: sum = x + dropout(delta), rounded once, and y
/// = layer_norm(sum). `delta` is of x's shape and dtype. A mask needs a dimension in front of the normalized
/// ones, which counts samples. Throws as `layer_norm` and `add_dropout`.
Normalized add_layer_norm(const Tensor& x, const Tensor& delta, const DropoutMask& mask, const Tensor& weight,
                          const Tensor& bias, double eps = 1e-5, int64_t axes = 1);
/// The same with `rms_norm`.
Normalized add_rms_norm(const Tensor& x, const Tensor& delta, const DropoutMask& mask, const Tensor& weight,
                        double eps = 1e-5, int64_t axes = 1);

/// The y of a forward once more, the same bits, from what was normalized and the statistics: two reads a
/// number are cheaper than to keep y.
Tensor normalization_again(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                           const Tensor& rstd);

/// Which gradients a backward computes; the others stay undefined.
struct NormalizationWants {
  bool x = true, weight = true, bias = true;
  bool delta = false;
  bool overwrite_x = false;  ///< the gradient at x goes where x is: contiguous, apart from the other operands
};
struct NormalizationGradients {
  Tensor x, weight, bias;
  Tensor delta = {};
};
inline int64_t operand_bytes(const NormalizationGradients& g) {
  return bytes_of_operands(g.x, g.weight, g.bias, g.delta);
}

/// The gradients at x, weight and bias from the one at y and from what the forward gave; an undefined `mean`
/// says RMS norm. Rows are added up in fixed groups, so that no bit depends on the number of threads; for the
/// half types those sums, the gradients of weight and bias, are f32.
NormalizationGradients normalization_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                              const Tensor& mean, const Tensor& rstd, int64_t axes,
                                              NormalizationWants wants = {});

/// The same for a sum that was normalized and used otherwise too: `dsum`, the gradient that arrived there
/// (undefined: none), is added on the way, and the gradient at delta is the one at x under the mask. Without
/// a mask the two are one tensor.
NormalizationGradients add_normalization_backward(const Tensor& dsum, const Tensor& dy, const Tensor& sum,
                                                  const DropoutMask& mask, const Tensor& weight,
                                                  const Tensor& mean, const Tensor& rstd, int64_t axes,
                                                  NormalizationWants wants);

}  // namespace tessera::ops
