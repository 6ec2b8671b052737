#pragma once

#include "tensor/profile/operand_bytes.h"
#include "tensor/tensor.h"

namespace tessera::ops {

/// How the losses of the elements are reduced: to their mean, to their sum, or not at all.
enum class LossReduction : uint8_t { mean, sum, none };

/// What counts in a cross entropy, and how.
struct CrossEntropyOptions {
  int64_t ignore_index = -100;   ///< targets of this id do not count
  double label_smoothing = 0.0;  ///< share of the target distribution, in [0, 1], spread over all classes
  LossReduction reduction = LossReduction::mean;  ///< a mean is over the targets that count
};

/// The loss, and the values that its backward needs. `log_sum_exp` (2, ...) holds for each row the largest
/// logit and log(sum(exp(logits - largest))), since for large logits their sum would lose the second; it is
/// f32 for half types, as the loss. `divisor` (f64, 0-dim) is what a mean is divided by: the number of
/// targets that count, or the sum of their weights.
struct CrossEntropy {
  /// `loss`: 0-dim, or the targets' shape without a reduction. `log_sum_exp`: 2, then the targets' shape.
  /// @{
  Tensor loss, log_sum_exp, divisor;
  /// @}
};
/// The bytes of its three tensors.
inline int64_t operand_bytes(const CrossEntropy& c) {
  return bytes_of_operands(c.loss, c.log_sum_exp, c.divisor);
}

}  // namespace tessera::ops
