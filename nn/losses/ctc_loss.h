#pragma once

#include "autograd/functions/losses/ctc_loss.h"
#include "nn/layer.h"

namespace tessera::nn {

/// Options of CTCLoss.
struct CTCLossOptions {
  int64_t blank = 0;                              ///< the class that stands for no label
  LossReduction reduction = LossReduction::mean;  ///< a mean divides by the target lengths first
  bool zero_infinity = false;                     ///< whether impossible samples have loss and gradient 0
};
/// Connectionist temporal classification (Graves et al. 2006). Throws as `ctc_loss`.
struct CTCLoss : Layer<CTCLoss, CTCLossOptions> {
  /// By default with blank 0.
  explicit CTCLoss(Options options = {}) : Layer(options) {}
  /// log_probs (T, N, C) or (T, C), as `log_softmax` gives them; targets (N, S) or (sum of the lengths);
  /// lengths (N) or (). The loss is 0-dim, or (N) without a reduction.
  Variable forward(const Variable& log_probs, const Tensor& targets, const Tensor& input_lengths,
                   const Tensor& target_lengths) const {
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, o.blank, o.reduction, o.zero_infinity);
  }
};

}  // namespace tessera::nn
