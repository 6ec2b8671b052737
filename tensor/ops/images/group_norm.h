#pragma once

#include "tensor/tensor.h"

namespace tessera::ops {

/// The results of a group norm of x (N, C, ...).
struct GroupNormed {
  Tensor y;  ///< x's shape and dtype
  /// (N, groups), in f32 for the half types: the mean of each group of channels, and 1 / sqrt(variance +
  /// epsilon).
  /// @{
  Tensor mean, rstd;
  /// @}
};

/// Normalizes each group of C / groups channels of each sample of x (N, C, ...), over all further dimensions
/// too, then multiplies by weight and adds bias of each channel (Wu and He 2018), in one pass over a
/// group. weight and bias are (C), of x's dtype or that of the statistics, and may be undefined. Throws
/// ShapeError, also for groups that do not divide C, and DTypeError.
GroupNormed group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                       double epsilon = 1e-5);

/// The gradients of a group norm; those that are not wanted stay undefined.
struct GroupNormGradients {
  Tensor x;       ///< x's shape and dtype
  Tensor weight;  ///< (C), in f32 for the half types
  Tensor bias;    ///< as weight
};

/// The gradients at x, weight and bias, from that at y and the forward's statistics.
GroupNormGradients group_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                       const Tensor& mean, const Tensor& rstd, bool wants_x,
                                       bool wants_weight, bool wants_bias);

}  // namespace tessera::ops
