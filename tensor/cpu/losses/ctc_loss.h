#pragma once  // internal

#include "tensor/tensor.h"

/// Connectionist temporal classification. log_probs (T, N, C) of any strides; labels (N, S), input and target
/// lengths (N) i64 and contiguous; values of probabilities are f64 logarithms.
namespace tessera::kernels::cpu {

/// log_alpha (N, T, 2 S + 1): the log-probability of every prefix; loss (N) in f64.
void ctc_loss(const Tensor& log_probs, const Tensor& labels, const Tensor& input_lengths,
              const Tensor& target_lengths, int64_t blank, const Tensor& log_alpha, const Tensor& loss);
/// The gradient at log_probs, contiguous. A loss that is infinite gets a gradient of 0 with `zero_infinity`,
/// else NaN.
void ctc_loss_backward(const Tensor& dloss, const Tensor& log_probs, const Tensor& labels,
                       const Tensor& input_lengths, const Tensor& target_lengths, int64_t blank,
                       bool zero_infinity, const Tensor& log_alpha, const Tensor& loss, const Tensor& out);

}  // namespace tessera::kernels::cpu
