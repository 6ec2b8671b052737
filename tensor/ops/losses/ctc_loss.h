#pragma once

#include "tensor/tensor.h"

namespace tessera::ops {

/// The operands of `ctc_loss` in one form.
struct CtcTargets {
  Tensor labels;          ///< (N, S) i64; those behind a sample's length are `blank`
  Tensor input_lengths;   ///< (N) i64
  Tensor target_lengths;  ///< (N) i64
  int64_t blank = 0;      ///< the class that stands for no label
};

/// Checks the operands of a CTC loss. log_probs (T, N, C) floating; `targets` i64 or i32: (N, S), of which
/// sample i counts the first target_lengths[i], or all samples' labels one after another, (sum of the
/// lengths). Lengths (N), i64 or i32. Throws ShapeError; DTypeError; ValueError for a length outside [0, T],
/// or [0, S]; IndexError for a blank that is no class, and for a label that is none or the blank.
CtcTargets ctc_targets(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                       const Tensor& target_lengths, int64_t blank);

/// The loss (N) of each sample, f64, and what its backward reads: log_alpha (N, T, 2 S + 1), f64.
struct CtcLoss {
  /// `loss` and `log_alpha`.
  /// @{
  Tensor loss, log_alpha;
  /// @}
};

/// -log of the probability of the targets: the sum over all paths that give them when repeated labels are
/// merged and blanks are removed (Graves et al. 2006); infinite where no path does. log_probs (T, N, C) are
/// logarithms of probabilities, targets are those of `ctc_targets`.
CtcLoss ctc_loss(const Tensor& log_probs, const CtcTargets& targets);

/// The gradient at log_probs, given that at the losses (N), f64. Where a loss is infinite, the gradient is 0
/// with `zero_infinity`, else NaN.
Tensor ctc_loss_backward(const Tensor& dloss, const Tensor& log_probs, const CtcTargets& targets,
                         const CtcLoss& forward, bool zero_infinity);

}  // namespace tessera::ops
