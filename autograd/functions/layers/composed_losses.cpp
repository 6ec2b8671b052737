// Losses that are made of other functions.

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/layers/loss.h"
#include "autograd/functions/nondifferentiable.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "tensor/operators.h"

namespace tessera {
namespace {

Variable reduced(const Variable& losses, LossReduction reduction) {
  if (reduction == LossReduction::none) return losses;
  return reduction == LossReduction::sum ? sum(losses) : mean(losses);
}

void require_one_shape(const char* where, const Variable& x, const Variable& target) {
  require<ShapeError>(x.shape() == target.shape(), where, ": expected a target of x's shape ", x.shape(),
                      ", got ", target.shape());
}

/// log(x), at least -100: its gradient is then 0.
Variable bounded_log(const Variable& x) {
  return clamp_min(log(x), -100.0);
}

}  // namespace

Variable l1_loss(const Variable& x, const Variable& target, LossReduction reduction) {
  if (autocast::widens(x, target)) [[unlikely]]
    return l1_loss(autocast::wide(x), autocast::wide(target), reduction);
  require_one_shape("l1_loss", x, target);
  return reduced(abs(x - target), reduction);
}

Variable smooth_l1_loss(const Variable& x, const Variable& target, LossReduction reduction, double beta) {
  if (autocast::widens(x, target)) [[unlikely]]
    return smooth_l1_loss(autocast::wide(x), autocast::wide(target), reduction, beta);
  require_one_shape("smooth_l1_loss", x, target);
  require<ValueError>(beta > 0, "smooth_l1_loss: expected a beta above 0, got ", beta,
                      "; for 0 write l1_loss");
  const Variable distance = abs(x - target);
  return reduced(where(less(distance, beta), square(distance) * (0.5 / beta), distance - 0.5 * beta),
                 reduction);
}

Variable binary_cross_entropy(const Variable& x, const Variable& target, LossReduction reduction) {
  if (autocast::widens(x, target)) [[unlikely]]
    return binary_cross_entropy(autocast::wide(x), autocast::wide(target), reduction);
  require_one_shape("binary_cross_entropy", x, target);
  require<ValueError>(
      x.device().is_meta() || x.numel() == 0 || all((x.value() >= 0) & (x.value() <= 1)).item_i64() != 0,
      "binary_cross_entropy: expected probabilities from 0 to 1; for logits write bce_with_logits");
  return reduced(neg(target * bounded_log(x) + (1 - target) * bounded_log(1 - x)), reduction);
}

Variable kl_div(const Variable& x, const Variable& target, LossReduction reduction, bool log_target) {
  if (autocast::widens(x, target)) [[unlikely]]
    return kl_div(autocast::wide(x), autocast::wide(target), reduction, log_target);
  if (log_target) return reduced(exp(target) * (target - x), reduction);
  // t log t is 0 at 0, also for the gradient.
  const Tensor zero = equal(target, Scalar(0));
  const Variable logarithm = log(masked_fill(target, zero, 1.0));
  return reduced(target * (logarithm - x), reduction);
}

Variable nll_loss(const Variable& x, const Tensor& targets, LossReduction reduction) {
  if (autocast::widens(x)) [[unlikely]]
    return nll_loss(autocast::wide(x), targets, reduction);
  require<ShapeError>(x.ndim() == 2 && targets.ndim() == 1 && targets.size(0) == x.size(0),
                      "nll_loss: expected x (n, classes) and targets (n,), got ", x.shape(), " and ",
                      targets.shape());
  return reduced(neg(squeeze(gather(x, 1, targets.unsqueeze(1)), 1)), reduction);
}

}  // namespace tessera
