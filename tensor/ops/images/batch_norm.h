#pragma once

#include "tensor/arguments/batch_norm.h"

namespace tessera::ops {

/// Options of `batch_norm`.
struct BatchNormSettings {
  double epsilon = 1e-5;  ///< added to the variance
  bool relu = false;      ///< y is max(y, 0), in the same pass
};

/// Normalizes each channel of x (N, C, ...) by its mean and variance over all other dimensions (Ioffe and
/// Szegedy 2015): y = (x - mean) / sqrt(variance + epsilon) * weight + bias. weight and bias are (C), of x's
/// dtype or f32, and may be undefined. Throws ShapeError, DTypeError, and ValueError for a channel of fewer
/// than two values. `added`, which may be undefined, is like x, in channels-last layout as x then is, and is
/// added before the relu.
BatchNormed batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const BatchNormSettings& settings = {}, const Tensor& added = {});
/// The mean, variance and rstd of x's channels, without y.
BatchNormed batch_norm_statistics(const Tensor& x, double epsilon = 1e-5);
/// y from a given mean and rstd (C), in f32 for the half types and otherwise in x's dtype.
Tensor batch_norm_apply(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                        const Tensor& bias, bool relu = false, const Tensor& added = {});

/// What a backward of batch norm computes, and from what.
struct BatchNormBackward {
  /// The gradient of the operand of this name is computed; else it stays undefined.
  /// @{
  bool x = true, weight = true, bias = true;
  /// @}
  bool relu = false;  ///< that of the forward
  /// The mean and rstd are those of x, so x's gradient has their terms; else they are constants.
  bool by_statistics = true;
  /// The forward's result where it added a tensor; the gradient at that is computed too.
  Tensor y = {};
};

/// The gradients at x, weight and bias, from that at y and the forward's statistics. `weight` and `bias` are
/// the forward's; the bias is read with `relu` only.
BatchNormGradients batch_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                       const Tensor& bias, const Tensor& mean, const Tensor& rstd,
                                       const BatchNormBackward& wanted = {});
/// The gradient at x where the statistics are those of `count` values per channel, of which x holds some:
/// `sum_dy` and `sum_along` (C) are the sums over all of them, as `batch_norm_backward` gives for bias and
/// weight.
Tensor batch_norm_input_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Tensor& mean, const Tensor& rstd, const Tensor& sum_dy,
                                 const Tensor& sum_along, double count, bool relu = false);

}  // namespace tessera::ops
