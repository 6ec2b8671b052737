#include "tensor/ops/losses/ctc_loss.h"

#include <algorithm>

#include "tensor/cpu/losses/ctc_loss.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t, const Tensor&,
                      const Tensor&)>
    forward_kernel{"ctc_loss", &kernels::cpu::ctc_loss, nullptr};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t,
                      bool, const Tensor&, const Tensor&, const Tensor&)>
    backward_kernel{"ctc_loss_backward", &kernels::cpu::ctc_loss_backward, nullptr};

/// `ids` as contiguous i64.
Tensor as_i64(const char* what, const Tensor& ids) {
  require<DTypeError>(ids.dtype() == i64 || ids.dtype() == i32, "ctc_loss: expected ", what,
                      " of i64 or i32, got ", describe(ids));
  return cast(ids, i64).contiguous();
}

void check_lengths(const char* what, const Tensor& lengths, int64_t largest) {
  for (int64_t i = 0; i < lengths.numel(); ++i) {
    const int64_t length = lengths.data<int64_t>()[i];
    require<ValueError>(length >= 0 && length <= largest, "ctc_loss: expected ", what, " from 0 to ", largest,
                        ", got ", length, " for sample ", i);
  }
}

/// The labels of a sample, checked, into a row that was filled with blanks.
void copy_labels(const int64_t* from, int64_t count, int64_t sample, int64_t classes, int64_t blank,
                 int64_t* row) {
  for (int64_t s = 0; s < count; ++s) {
    require<IndexError>(from[s] >= 0 && from[s] < classes && from[s] != blank, "ctc_loss: target ", from[s],
                        " at position ", s, " of sample ", sample, " is no label: they go from 0 to ",
                        classes - 1, " without the blank ", blank);
    row[s] = from[s];
  }
}

/// (N, S) of labels with blanks behind them.
Tensor padded_labels(const Tensor& targets, const Tensor& lengths, int64_t classes, int64_t blank) {
  const int64_t samples = lengths.numel();
  const int64_t* const length = lengths.data<int64_t>();
  int64_t total = 0, longest = 0;
  for (int64_t i = 0; i < samples; ++i) {
    total += length[i];
    longest = std::max(longest, length[i]);
  }
  const bool joined = targets.ndim() == 1;
  require<ShapeError>(!joined || targets.numel() == total, "ctc_loss: expected ", total,
                      " targets, the sum of the target lengths, got ", targets.numel());
  Tensor labels = Tensor::empty({samples, longest}, i64, targets.device());
  std::fill_n(labels.data<int64_t>(), labels.numel(), blank);
  int64_t offset = 0;
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t first = joined ? offset : i * targets.size(1);
    copy_labels(targets.data<int64_t>() + first, length[i], i, classes, blank,
                labels.data<int64_t>() + i * longest);
    offset += length[i];
  }
  return labels;
}

}  // namespace

CtcTargets ctc_targets(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                       const Tensor& target_lengths, int64_t blank) {
  const Device device = common_device("ctc_loss", {&log_probs, &targets, &input_lengths, &target_lengths});
  require_floating("ctc_loss", log_probs);
  require<ShapeError>(log_probs.ndim() == 3, "ctc_loss: expected log-probabilities (T, N, C), got ",
                      log_probs.shape());
  const int64_t frames = log_probs.size(0), samples = log_probs.size(1), classes = log_probs.size(2);
  require<IndexError>(blank >= 0 && blank < classes, "ctc_loss: the blank ", blank,
                      " is no class: they go from 0 to ", classes - 1);
  require<ShapeError>(targets.ndim() == 1 || (targets.ndim() == 2 && targets.size(0) == samples),
                      "ctc_loss: expected targets (", samples,
                      ", S) or all of them in (sum of the lengths), got ", targets.shape());
  for (const Tensor* lengths : {&input_lengths, &target_lengths})
    require<ShapeError>(lengths->shape() == Shape{samples}, "ctc_loss: expected a length for each of ",
                        samples, " samples, got ", lengths->shape());
  if (device.is_batched()) throw_no_batching_rule("ctc_loss");
  CtcTargets result{as_i64("targets", targets), as_i64("input lengths", input_lengths),
                    as_i64("target lengths", target_lengths), blank};
  if (!device.is_cpu() || targets.is_meta()) {
    if (targets.ndim() == 1) result.labels = Tensor::empty({samples, targets.size(0)}, i64, device);
    return result;
  }
  check_lengths("input lengths", result.input_lengths, frames);
  check_lengths("target lengths", result.target_lengths,
                targets.ndim() == 2 ? targets.size(1) : targets.numel());
  result.labels = padded_labels(result.labels, result.target_lengths, classes, blank);
  return result;
}

CtcLoss ctc_loss(const Tensor& log_probs, const CtcTargets& targets) {
  const Device device = common_device("ctc_loss", {&log_probs, &targets.labels});
  const int64_t samples = log_probs.size(1), states = 2 * targets.labels.size(1) + 1;
  CtcLoss result{Tensor::empty({samples}, f64, device),
                 Tensor::empty({samples, log_probs.size(0), states}, f64, device)};
  forward_kernel(device, log_probs, targets.labels, targets.input_lengths, targets.target_lengths,
                 targets.blank, result.log_alpha, result.loss);
  return result;
}

Tensor ctc_loss_backward(const Tensor& dloss, const Tensor& log_probs, const CtcTargets& targets,
                         const CtcLoss& forward, bool zero_infinity) {
  const Device device = common_device("ctc_loss_backward", {&dloss, &log_probs, &forward.loss});
  Tensor dx = Tensor::empty(log_probs.shape(), log_probs.dtype(), device);
  backward_kernel(device, dloss.contiguous(), log_probs, targets.labels, targets.input_lengths,
                  targets.target_lengths, targets.blank, zero_infinity, forward.log_alpha, forward.loss, dx);
  return dx;
}

}  // namespace tessera::ops
