#pragma once

#include "autograd/parameter_list.h"

namespace tessera::optim {

/// Options of `grad_norm` and of clipping by it.
struct NormOptions {
  double p = 2.0;                   ///< the norm's power; infinity for the largest magnitude
  bool error_if_nonfinite = false;  ///< throw instead of returning an infinite norm or NaN
};

/// The p-norm of all gradients as one vector: 0-dim f64, on the device for gradients of a CUDA device without
/// a reducer, where the host does not wait for it. Sums are in f64, within a parameter over blocks of
/// fixed size and then over the parameters in index order, so that the bits do not depend on threads. For
/// p = 2, gradients with a note of their squares (`Tensor::noted_squares`) are not read. With a reducer the
/// sum is over all ranks, in the reducer's order. Missing gradients count 0. Throws ValueError unless p > 0,
/// ConfigError for a list made before its parameters were sharded or one of shards without a reducer, and,
/// with `error_if_nonfinite`, NonFiniteError naming the first non-finite gradient and its rank.
Tensor grad_norm(const ParameterList& parameters, const NormOptions& options = {});

/// Scales all gradients in place by min(1, max_norm / (norm + 1e-6)) and returns the norm before: 0-dim
/// f64. A NaN or infinite norm makes every gradient NaN or 0, so it stays visible. Throws ValueError for a
/// negative max_norm, and as `grad_norm`.
Tensor clip_grad_norm(const ParameterList& parameters, double max_norm, const NormOptions& options = {});
/// The same, by PyTorch's name.
inline Tensor clip_grad_norm_(const ParameterList& parameters, double max_norm,
                              const NormOptions& options = {}) {
  return clip_grad_norm(parameters, max_norm, options);
}

/// The norm of the gradients, and the coefficient that clips them to `max_norm`; both 0-dim f64.
struct ClipCoefficient {
  /// The norm before, and min(1, max_norm / (norm + 1e-6)).
  /// @{
  Tensor norm, coefficient;
  /// @}
};

/// As `clip_grad_norm`, leaving the gradients as they are: `adam.step({.clip = clip.coefficient})` applies it
/// during the update. For gradients of the parameter's own dtype the bits are those of clipping in place.
ClipCoefficient clip_coefficient(const ParameterList& parameters, double max_norm,
                                 const NormOptions& options = {});

/// Moves every element of every gradient into [-limit, limit], in place. Throws ValueError for a negative
/// limit.
void clip_grad_value(const ParameterList& parameters, double limit);
/// The same, by PyTorch's name.
inline void clip_grad_value_(const ParameterList& parameters, double limit) {
  clip_grad_value(parameters, limit);
}

}  // namespace tessera::optim
