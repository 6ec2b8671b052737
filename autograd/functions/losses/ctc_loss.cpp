#include "autograd/functions/losses/ctc_loss.h"

#include <algorithm>
#include <limits>

#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/losses/reduced.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/losses/ctc_loss.h"

namespace tessera {
namespace {

constexpr double impossible = -1e30;  // finite, so that differences of two such are no NaN

/// The states' labels (N, 2 S + 1), a blank before and behind each label, and where a path may skip one.
struct CtcStates {
  Tensor labels, skips;
};
CtcStates states_of(const ops::CtcTargets& t) {
  const int64_t samples = t.labels.size(0), targets = t.labels.size(1), count = 2 * targets + 1;
  CtcStates states{Tensor::empty({samples, count}, i64), Tensor::zeros({samples, count}, boolean)};
  std::fill_n(states.labels.data<int64_t>(), samples * count, t.blank);
  for (int64_t i = 0; i < samples; ++i)
    for (int64_t s = 0; s < targets; ++s) {
      const int64_t* const row = t.labels.data<int64_t>() + i * targets;
      const int64_t state = i * count + 2 * s + 1;
      states.labels.data<int64_t>()[state] = row[s];
      states.skips.data<bool>()[state] = s > 0 && row[s] != row[s - 1];
    }
  return states;
}

/// alpha moved by `steps` states, and `impossible` in front.
Variable moved(const Variable& alpha, int64_t steps) {
  const int64_t count = alpha.size(1), kept = std::max<int64_t>(count - steps, 0);
  const Variable front = ops::full({alpha.size(0), count - kept}, Scalar(impossible), alpha.dtype());
  return cat({front, narrow(alpha, 1, 0, kept)}, 1);
}

/// The element `index[i]` of row i, or `impossible` for a negative index.
Variable element_of(const Variable& rows, const Tensor& index) {
  const Tensor missing = ops::less(index, Scalar(int64_t{0}));
  const Tensor valid = ops::where(missing, ops::zeros(index.shape(), i64), index);
  return masked_fill(squeeze(gather(rows, 1, valid.unsqueeze(1)), 1), missing, impossible);
}

/// The losses (N) in differentiable functions: the recursion over frames, for all samples at once.
Variable composed_ctc(const Variable& log_probs, const ops::CtcTargets& t) {
  const int64_t frames = log_probs.size(0), samples = log_probs.size(1);
  const CtcStates states = states_of(t);
  const int64_t count = states.labels.size(1);
  const Tensor index = states.labels.unsqueeze(0).expand({frames, samples, count}).contiguous();
  const Variable scores = gather(cast(log_probs, f64), 2, index);  // (T, N, states)
  Variable alpha = ops::full({samples, count}, Scalar(impossible), f64);
  for (int64_t frame = 0; frame < frames; ++frame) {
    const Variable score = select(scores, 0, frame);
    Variable next;
    if (frame == 0) {
      Tensor later = Tensor::zeros({samples, count}, boolean);
      for (int64_t i = 0; i < later.numel(); ++i)
        later.data<bool>()[i] =
            i % count > std::min<int64_t>(1, 2 * t.target_lengths.data<int64_t>()[i / count]);
      next = masked_fill(score, later, impossible);
    } else {
      const Variable skipped = masked_fill(moved(alpha, 2), ops::logical_not(states.skips), impossible);
      next = logsumexp(stack({alpha, moved(alpha, 1), skipped}, 0), {0}) + score;
    }
    const Tensor active = ops::greater(t.input_lengths, Scalar(frame)).unsqueeze(1);
    alpha = where(active, next, alpha);
  }
  const Tensor last = ops::mul(t.target_lengths, Scalar(int64_t{2}));
  const Tensor before = ops::sub(last, Scalar(int64_t{1}));
  return neg(logsumexp(stack({element_of(alpha, last), element_of(alpha, before)}, 0), {0}));
}

Variable losses_of(const Variable& log_probs, const ops::CtcTargets& t, bool zero_infinity) {
  const ops::CtcLoss forward = ops::ctc_loss(log_probs.value(), t);
  Tensor loss = forward.loss;
  if (zero_infinity && !loss.is_meta())
    loss = ops::where(ops::equal(loss, Scalar(std::numeric_limits<double>::infinity())), ops::zeros({}, f64),
                      loss);
  return record(
      "ctc_loss", loss, {log_probs},
      saved(log_probs, t.labels, t.input_lengths, t.target_lengths, forward.loss, forward.log_alpha),
      [zero_infinity, blank = t.blank](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
        const ops::CtcTargets targets{s.tensor(1), s.tensor(2), s.tensor(3), blank};
        const ops::CtcLoss saved_loss{s.tensor(4), s.tensor(5)};
        if (!grad_mode() || s.tensor(0).is_meta())
          return {Variable(
              ops::ctc_loss_backward(dy[0].value(), s.tensor(0), targets, saved_loss, zero_infinity))};
        const Variable x = s[0];
        const Tensor infinite = ops::equal(saved_loss.loss, Scalar(std::numeric_limits<double>::infinity()));
        const Variable losses = masked_fill(composed_ctc(x, targets), infinite, 0.0);
        return {grad(std::vector{losses}, std::vector{x}, std::vector{dy[0]}, {.create_graph = true})[0]};
      });
}

}  // namespace

Variable ctc_loss(const Variable& log_probs, const Tensor& targets, const Tensor& input_lengths,
                  const Tensor& target_lengths, int64_t blank, LossReduction reduction, bool zero_infinity) {
  check_reduction("ctc_loss", reduction);
  require<ShapeError>(log_probs.ndim() == 2 || log_probs.ndim() == 3,
                      "ctc_loss: expected log-probabilities (T, N, C) or (T, C), got ", log_probs.shape());
  const bool one = log_probs.ndim() == 2;
  const Variable batch = one ? unsqueeze(log_probs, 1) : log_probs;
  const auto lengths = [one](const Tensor& x) { return one && x.numel() == 1 ? x.reshape({1}) : x; };
  const ops::CtcTargets t =
      ops::ctc_targets(batch.value(), targets, lengths(input_lengths), lengths(target_lengths), blank);
  Variable losses = losses_of(batch, t, zero_infinity);
  if (reduction == LossReduction::mean)
    losses = losses / Variable(ops::cast(ops::maximum(t.target_lengths, Scalar(int64_t{1})), f64));
  const DType dtype = log_probs.dtype() == f64 ? f64 : f32;
  return cast(reduced("ctc_loss", one ? reshape(losses, {}) : losses, reduction), dtype);
}

}  // namespace tessera
