#pragma once

#include "tensor/arguments/normalization.h"
#include "tensor/ops/layers/dropout.h"

namespace tessera::ops {

/// Normalizes the last `axes` dimensions of x together: y = (x - mean) / sqrt(variance + eps) * weight + bias
/// (Ba et al. 2016), where weight and bias are of the shape of these dimensions and x's dtype, and may be
/// undefined. Throws ShapeError, DTypeError.
Normalized layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5,
                      int64_t axes = 1);
/// y = x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019).
Normalized rms_norm(const Tensor& x, const Tensor& weight, double eps = 1e-5, int64_t axes = 1);

/// A residual addition and the norm that follows, in one pass: sum = x + dropout(delta), rounded once, and y
/// = layer_norm(sum). `delta` has x's shape and dtype. A mask needs a dimension of samples before the
/// normalized ones. Throws as `layer_norm` and `add_dropout`.
Normalized add_layer_norm(const Tensor& x, const Tensor& delta, const DropoutMask& mask, const Tensor& weight,
                          const Tensor& bias, double eps = 1e-5, int64_t axes = 1);
/// The same with `rms_norm`.
Normalized add_rms_norm(const Tensor& x, const Tensor& delta, const DropoutMask& mask, const Tensor& weight,
                        double eps = 1e-5, int64_t axes = 1);

/// Recomputes y of a forward, with the same bits, from its input and statistics: reading two values per
/// element is cheaper than keeping y.
Tensor recompute_normalized(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                            const Tensor& rstd);

/// The gradients that a backward computes; the others stay undefined (but see NormalizationGradients::x).
struct NormalizationNeedsGrad {
  /// The gradient of the operand of this name.
  /// @{
  bool x = true, weight = true, bias = true;
  bool delta = false;
  /// @}
  bool overwrite_x = false;  ///< the gradient replaces x, which is contiguous and overlaps no other operand
};

/// The gradients at x, weight and bias, from the gradient at y and the forward's results; an undefined `mean`
/// means RMS norm. Rows are added up in fixed groups, so that the bits do not depend on the number of
/// threads. For the half types the gradients of weight and bias, which are these sums, are f32.
NormalizationGradients normalization_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                              const Tensor& mean, const Tensor& rstd, int64_t axes,
                                              NormalizationNeedsGrad needs_grad = {});

/// The same for a sum that has other uses besides the norm: `dsum`, the gradient of those uses (undefined:
/// none), is added. The gradient at delta is the gradient at x with the mask applied; without a mask the two
/// are one tensor.
NormalizationGradients add_normalization_backward(const Tensor& dsum, const Tensor& dy, const Tensor& sum,
                                                  const DropoutMask& mask, const Tensor& weight,
                                                  const Tensor& mean, const Tensor& rstd, int64_t axes,
                                                  NormalizationNeedsGrad needs_grad);

}  // namespace tessera::ops
