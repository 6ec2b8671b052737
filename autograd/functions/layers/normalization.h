#pragma once

#include "autograd/functions/layers/dropout.h"

namespace tessera {

/// (x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimensions, those of weight's shape
/// (Ba et al., 2016); without weight and bias, over the last dimension only. Saves x, weight, and per row the
/// mean and the reciprocal deviation.
Variable layer_norm(const Variable& x, const Variable& weight = {}, const Variable& bias = {},
                    double epsilon = 1e-5);

/// x / sqrt(mean(x^2) + epsilon) * weight (Zhang & Sennrich 2019). Saves x, weight, and a value per row.
Variable rms_norm(const Variable& x, const Variable& weight = {}, double epsilon = 1e-6);

/// A residual stream and its norm.
struct SumAndNorm {
  /// x + dropout(delta), and its norm, with weight and bias where given.
  /// @{
  Variable sum, normal;
  /// @}
  /// Calls `visit(x)` for both Variables: by this, module calls find them in a result (nn/layer.h).
  template <class Visit>
  void for_each_variable(const Visit& visit) {
    visit(sum);
    visit(normal);
  }
};

/// sum = x + dropout(delta) and its layer norm, in one pass; the backward adds the gradients of both in one
/// pass. With an undefined delta the sum is x itself, not copied; a residual path then continues from `sum`,
/// so that this backward adds both gradients of x. Saves the sum, weight, and two values per row; the mask is
/// drawn again. delta has x's shape; a mask needs x (B, ...) with B not normalized.
SumAndNorm add_layer_norm(const Variable& x, const Variable& delta, const DropoutMask& mask = {},
                          const Variable& weight = {}, const Variable& bias = {}, double epsilon = 1e-5);

/// The same with `rms_norm`.
SumAndNorm add_rms_norm(const Variable& x, const Variable& delta, const DropoutMask& mask = {},
                        const Variable& weight = {}, double epsilon = 1e-6);

}  // namespace tessera
