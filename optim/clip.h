#pragma once

#include "autograd/parameter_list.h"

namespace tessera::optim {

struct NormOptions {
  double p = 2.0;                   ///< the norm's power; infinity for the largest magnitude
  bool error_if_nonfinite = false;  ///< throw instead of returning an infinite norm or NaN
};

/// The p-norm of all gradients laid end to end: 0-dim f64. Sums are in f64, within a parameter over blocks of
/// fixed size and then over the parameters in index order, so that the bits depend on no thread; where the
/// list carries a reducer, over all ranks as that sums them. Missing gradients count 0. Throws ValueError
/// unless p > 0, ConfigError for a list made before its parameters were sharded or one of parts without a
/// reducer, and NonFiniteError, naming the first gradient at fault and its rank, when asked to.
Tensor grad_norm(const ParameterList& parameters, const NormOptions& options = {});

/// Scales all gradients in place by min(1, max_norm / (norm + 1e-6)) and returns the norm they had: 0-dim
/// f64. A NaN or infinite norm is not hidden: it spoils every gradient. Throws ValueError for a negative
/// max_norm, and as `grad_norm`.
Tensor clip_grad_norm(const ParameterList& parameters, double max_norm, const NormOptions& options = {});

/// A norm and the coefficient that clips to it, both 0-dim f64.
struct ClipCoefficient {
  Tensor norm, coefficient;
};

/// As `clip_grad_norm`, leaving the gradients as they are: `adam.step({.clip = clip.coefficient})` applies it
/// on the way. For gradients of the parameter's own dtype the bits are those of clipping in place.
ClipCoefficient clip_coefficient(const ParameterList& parameters, double max_norm,
                                 const NormOptions& options = {});

/// Moves every element of every gradient into [-limit, limit], in place. Throws ValueError for a negative
/// limit.
void clip_grad_value(const ParameterList& parameters, double limit);

}  // namespace tessera::optim
