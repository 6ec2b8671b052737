#pragma once

#include "autograd/functions/layers/loss.h"

namespace tessera {

/// Connectionist temporal classification (Graves et al. 2006): -log of the probability that a sequence of
/// frames gives the targets, summed over all alignments. log_probs (T, N, C), or (T, C) for one sample, as
/// `log_softmax` gives them; targets i64 or i32: (N, S), of which sample i counts the first
/// target_lengths[i], or all samples' labels one after another, (sum of the lengths). Lengths (N), or () for
/// one sample. Repeated labels need a blank between them; a sample without labels is one of blanks alone.
/// Where no alignment exists, the loss is infinite, and its gradient NaN; with `zero_infinity` both are 0. A
/// mean divides each loss by its target length (at least 1) first. Saves log_probs and a table (N, T, 2 S +
/// 1) in f64; all is computed in f64.
///
/// The gradient is that of the function of log_probs. PyTorch's has exp(log_probs) added, which changes
/// nothing behind `log_softmax`.
///
/// Throws ShapeError, DTypeError; ValueError for a length outside [0, T] or [0, S]; IndexError for a blank
/// that is no class, and for a target that is none or the blank.
Variable ctc_loss(const Variable& log_probs, const Tensor& targets, const Tensor& input_lengths,
                  const Tensor& target_lengths, int64_t blank = 0,
                  LossReduction reduction = LossReduction::mean, bool zero_infinity = false);

}  // namespace tessera
