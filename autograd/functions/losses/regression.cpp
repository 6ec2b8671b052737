#include "autograd/functions/losses/regression.h"

#include <cmath>
#include <numbers>

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/losses/fused_loss.h"
#include "autograd/functions/losses/reduced.h"
#include "autograd/functions/nondifferentiable.h"
#include "autograd/functions/view.h"
#include "tensor/operators.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/reduction.h"

namespace tessera {
namespace {

/// Losses times their weights, reduced; a mean divides by `divisor`.
Variable weighted(const char* where, const Variable& losses, const Variable& weight,
                  LossReduction reduction) {
  require<ShapeError>(losses.shape() == weight.shape(), where, ": expected a weight of x's shape ",
                      losses.shape(), ", got ", weight.shape());
  if (reduction != LossReduction::mean) return reduced(where, losses * weight, reduction);
  return sum(losses * weight) / sum(weight);
}

/// Whether a condition holds for all values; on meta nothing is known.
bool holds(const Tensor& condition) {
  return condition.is_meta() || condition.numel() == 0 || ops::all(condition).item_i64() != 0;
}

void check_delta(double delta) {
  require<ValueError>(delta > 0, "huber_loss: expected a delta above 0, got ", delta);
}

}  // namespace

void check_option(const char* where, const char* option, double value) {
  require<ValueError>(!std::isnan(value), where, ": expected a number as ", option, ", got NaN");
}

LossReduction loss_reduction(std::string_view name) {
  if (name == "mean") return LossReduction::mean;
  if (name == "sum") return LossReduction::sum;
  require<ValueError>(name == "none", "expected the reduction \"none\", \"mean\" or \"sum\", got \"", name,
                      "\"");
  return LossReduction::none;
}

Variable l1_loss(const Variable& x, const Variable& target, LossReduction reduction) {
  return fused_loss({ElementwiseLossKind::l1_loss}, x, target, reduction);
}
Variable l1_loss(const Variable& x, const Variable& target, LossReduction reduction, const Variable& weight) {
  if (!weight.defined()) return l1_loss(x, target, reduction);
  return weighted("l1_loss", l1_loss(x, target, LossReduction::none), weight, reduction);
}

Variable mse_loss(const Variable& x, const Variable& target, LossReduction reduction) {
  return fused_loss({ElementwiseLossKind::mse_loss}, x, target, reduction);
}
Variable mse_loss(const Variable& x, const Variable& target, LossReduction reduction,
                  const Variable& weight) {
  if (!weight.defined()) return mse_loss(x, target, reduction);
  return weighted("mse_loss", mse_loss(x, target, LossReduction::none), weight, reduction);
}

Variable huber_loss(const Variable& x, const Variable& target, LossReduction reduction, double delta) {
  check_delta(delta);
  return fused_loss({ElementwiseLossKind::huber_loss, delta}, x, target, reduction);
}
Variable huber_loss(const Variable& x, const Variable& target, LossReduction reduction, double delta,
                    const Variable& weight) {
  if (!weight.defined()) return huber_loss(x, target, reduction, delta);
  const Variable losses = huber_loss(x, target, LossReduction::none, delta);
  require<ShapeError>(losses.shape() == weight.shape(), "huber_loss: expected a weight of x's shape ",
                      losses.shape(), ", got ", weight.shape());
  return reduced("huber_loss", losses * weight, reduction);
}

Variable smooth_l1_loss(const Variable& x, const Variable& target, LossReduction reduction, double beta) {
  require<ValueError>(beta > 0, "smooth_l1_loss: expected a beta above 0, got ", beta,
                      "; for 0 write l1_loss");
  return fused_loss({ElementwiseLossKind::smooth_l1_loss, beta}, x, target, reduction);
}

Variable poisson_nll_loss(const Variable& x, const Variable& target, bool log_input, bool full,
                          double epsilon, LossReduction reduction) {
  if (autocast::widens(x, target)) [[unlikely]]
    return poisson_nll_loss(autocast::wide(x), autocast::wide(target), log_input, full, epsilon, reduction);
  require_one_shape("poisson_nll_loss", x, target);
  require<ValueError>(epsilon > 0, "poisson_nll_loss: expected an epsilon above 0, got ", epsilon);
  Variable losses = log_input ? exp(x) - target * x : x - target * log(x + epsilon);
  if (full) {
    const Tensor small = less_equal(target, Scalar(1.0));
    const Variable t = masked_fill(target, small, 1.0);
    const Variable stirling = t * log(t) - t + log(t * (2 * std::numbers::pi)) * 0.5;
    losses = losses + masked_fill(stirling, small, 0.0);
  }
  return reduced("poisson_nll_loss", losses, reduction);
}

Variable gaussian_nll_loss(const Variable& x, const Variable& target, const Variable& variance, bool full,
                           double epsilon, LossReduction reduction) {
  if (autocast::widens(x, target, variance)) [[unlikely]]
    return gaussian_nll_loss(autocast::wide(x), autocast::wide(target), autocast::wide(variance), full,
                             epsilon, reduction);
  const char* where = "gaussian_nll_loss";
  require_one_shape(where, x, target);
  require<ValueError>(epsilon > 0, where, ": expected an epsilon above 0, got ", epsilon);
  Variable v = variance;
  if (v.shape() != x.shape()) {
    if (v.ndim() == x.ndim() - 1) v = unsqueeze(v, -1);
    int differing = v.ndim() == x.ndim() ? 0 : 2;
    for (int d = 0; differing <= 1 && d < x.ndim(); ++d)
      if (v.size(d) != x.size(d)) differing += v.size(d) == 1 ? 1 : 2;
    require<ShapeError>(differing <= 1, where, ": expected a variance of x's shape ", x.shape(),
                        ", or with an extent of 1 in one dimension, or without the last one, got ",
                        variance.shape());
  }
  require<ValueError>(holds(ops::greater_equal(v.value(), Scalar(0.0))), where,
                      ": expected a variance of at least 0");
  // The bound moves the value, and the gradient passes it.
  const Tensor raised = ops::sub(ops::maximum(v.value(), Scalar(epsilon)), v.value());
  v = v + Variable(raised);
  Variable losses = (log(v) + square(x - target) / v) * 0.5;
  if (full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
  return reduced(where, losses, reduction);
}
Variable gaussian_nll_loss(const Variable& x, const Variable& target, double variance, bool full,
                           double epsilon, LossReduction reduction) {
  require<ValueError>(variance >= 0, "gaussian_nll_loss: expected a variance of at least 0, got ", variance);
  const Tensor same = ops::full({}, Scalar(variance), x.dtype(), x.device()).expand(x.shape());
  return gaussian_nll_loss(x, target, Variable(same), full, epsilon, reduction);
}

}  // namespace tessera
