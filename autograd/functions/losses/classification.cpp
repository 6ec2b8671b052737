#include "autograd/functions/losses/classification.h"

#include <optional>

#include "autograd/autocast/operands.h"
#include "autograd/functions/composed.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/losses/fused_loss.h"
#include "autograd/functions/losses/reduced.h"
#include "autograd/functions/nondifferentiable.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/operators.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/promotion.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/indexing/indexing.h"
#include "tensor/ops/indexing/sorting.h"
#include "tensor/ops/losses/class_targets.h"
#include "tensor/ops/losses/soft_cross_entropy.h"
#include "tensor/ops/reduction.h"

namespace tessera {
namespace {

/// The soft cross entropy in differentiable functions.
Variable composed_cross_entropy(const Variable& logits, const Variable& target,
                                const CrossEntropyOptions& options, const Tensor& weight) {
  const int64_t classes = logits.size(-1);
  Variable q = target;
  if (options.label_smoothing != 0)
    q = q * (1 - options.label_smoothing) + options.label_smoothing / static_cast<double>(classes);
  if (weight.defined()) q = q * Variable(weight);
  const DType type = logits.dtype() == f64 ? f64 : f32;
  const Variable losses = neg(sum(cast(q, type) * log_softmax(cast(logits, type), -1), {-1}));
  return reduced("cross_entropy", losses, options.reduction);
}

/// The targets, with 0 for those that are `ignored`, and which ones count (where some may be ignored). Throws
/// IndexError for one that is no class.
struct CountedTargets {
  Tensor ids, counts;
};
CountedTargets counted(const char* where, const Tensor& targets, std::optional<int64_t> ignored,
                       int64_t classes) {
  require<DTypeError>(targets.dtype() == i64 || targets.dtype() == i32, where,
                      ": expected targets of class ids, i64 or i32, got ", describe(targets));
  const Tensor ids = ops::cast(targets, i64).contiguous();
  ops::check_class_targets(where, ids, classes, ignored);
  if (!ignored) return {ids, Tensor()};
  const Tensor counts = ops::not_equal(ids, Scalar(*ignored));
  return {ops::where(counts, ids, Scalar(int64_t{0})), counts};
}

void check_class_weights(const char* where, const Variable& x, const Tensor& weight, int64_t classes) {
  if (!weight.defined()) return;
  require<ShapeError>(weight.shape() == Shape{classes}, where, ": expected ", classes, " class weights, got ",
                      weight.shape());
  require<DTypeError>(weight.dtype() == x.dtype(), where, ": expected class weights of x's dtype ", x.dtype(),
                      ", got ", describe(weight));
}

void require_broadcast(const char* where, const char* what, const Variable& x, const Variable& weight) {
  require<ShapeError>(broadcast_shapes(x.shape(), weight.shape(), where) == x.shape(), where, ": the ", what,
                      " ", weight.shape(), " does not broadcast to x's shape ", x.shape());
}

/// x (C) as (1, C).
Variable as_rows(const char* where, const Variable& x) {
  require<ShapeError>(x.ndim() == 1 || x.ndim() == 2, where, ": expected x (N, C) or (C), got ", x.shape());
  return x.ndim() == 1 ? unsqueeze(x, 0) : x;
}

/// Losses (N) of rows, reduced; those of one row alone are ().
Variable reduced_rows(const char* where, const Variable& losses, bool one, LossReduction reduction) {
  return reduced(where, one ? reshape(losses, {}) : losses, reduction);
}

}  // namespace

Variable cross_entropy(const Variable& logits, const Variable& target, const CrossEntropyOptions& options,
                       const Tensor& weight) {
  if (logits.defined() && target.defined() && !is_floating(target.dtype()))
    return cross_entropy(logits, target.value(), options, weight);
  const bool mixed = logits.defined() && target.defined() && logits.dtype() != target.dtype();
  if (mixed || (autocast::widens(logits) && weight.defined())) [[unlikely]] {
    const DType type =
        is_autocast_enabled() ? f32 : ops::promote(logits.dtype(), target.dtype(), "cross_entropy");
    if (logits.dtype() != type || target.dtype() != type)
      return cross_entropy(cast(logits, type), cast(target, type), options,
                           weight.defined() ? ops::cast(weight, type) : weight);
  }
  const ops::SoftCrossEntropy forward =
      ops::soft_cross_entropy(logits.value(), target.value(), weight, options);
  return record(
      "cross_entropy", forward.loss, {logits, target}, saved(logits, target, weight, forward.log_sum_exp),
      [options](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
        Gradients gradients(2);
        if (!grad_mode() && !wanted[1]) {
          gradients[0] = Variable(ops::soft_cross_entropy_backward(dy[0].value(), s.tensor(0), s.tensor(1),
                                                                   s.tensor(2), s.tensor(3), options));
          return gradients;
        }
        const EnableGrad recorded;
        const bool create_graph = grad_mode();
        std::vector<Variable> inputs, wanted_inputs;
        for (size_t i = 0; i < 2; ++i) {
          inputs.push_back(s[i]);
          if (wanted[i]) wanted_inputs.push_back(inputs.back());
        }
        const Variable loss = composed_cross_entropy(inputs[0], inputs[1], options, s.tensor(2));
        const std::vector<Variable> found =
            grad(std::vector{loss}, wanted_inputs, std::vector{dy[0]}, {.create_graph = create_graph});
        for (size_t i = 0, next = 0; i < 2; ++i)
          if (wanted[i]) gradients[i] = found[next++];
        return gradients;
      });
}

Variable nll_loss(const Variable& x, const Tensor& targets, const Tensor& weight, int64_t ignore_index,
                  LossReduction reduction, int64_t class_dim) {
  if (autocast::widens(x)) [[unlikely]]
    return nll_loss(autocast::wide(x), targets, weight.defined() ? ops::cast(weight, f32) : weight,
                    ignore_index, reduction, class_dim);
  require<ShapeError>(x.ndim() >= 1, "nll_loss: expected x (..., classes), got ()");
  check_reduction("nll_loss", reduction);
  const int64_t dim = normalize_dim(class_dim, x.ndim(), "nll_loss"), classes = x.size(dim);
  Shape expected = x.shape();
  expected.erase(static_cast<int>(dim));
  require<ShapeError>(targets.shape() == expected, "nll_loss: expected targets ", expected, " for x ",
                      x.shape(), " with the classes along dimension ", dim, ", got ", targets.shape());
  check_class_weights("nll_loss", x, weight, classes);
  const CountedTargets t = counted("nll_loss", targets, ignore_index, classes);
  Tensor counts = ops::cast(t.counts, x.dtype());
  if (weight.defined()) {
    const Tensor of_targets = ops::index_select(weight, 0, t.ids.reshape({t.ids.numel()}));
    counts = ops::mul(counts, of_targets.reshape(t.ids.shape()));
  }
  const Variable picked = squeeze(gather(x, dim, t.ids.unsqueeze(dim)), dim);
  // An ignored place may hold an infinity, which times 0 is NaN.
  const Variable losses = neg(masked_fill(picked, ops::logical_not(t.counts), 0.0) * Variable(counts));
  if (reduction != LossReduction::mean) return reduced("nll_loss", losses, reduction);
  return sum(losses) / Variable(ops::sum(counts));
}

Variable nll_loss(const Variable& x, const Tensor& targets, LossReduction reduction) {
  return nll_loss(x, targets, Tensor(), -100, reduction);
}

Variable binary_cross_entropy(const Variable& x, const Variable& target, LossReduction reduction) {
  require_one_shape("binary_cross_entropy", x, target);
  require<ValueError>(
      x.device().is_meta() || x.numel() == 0 || all((x.value() >= 0) & (x.value() <= 1)).item_i64() != 0,
      "binary_cross_entropy: expected probabilities from 0 to 1; for logits write bce_with_logits");
  return fused_loss({ElementwiseLossKind::binary_cross_entropy}, x, target, reduction);
}
Variable binary_cross_entropy(const Variable& x, const Variable& target, const Variable& weight,
                              LossReduction reduction) {
  if (!weight.defined()) return binary_cross_entropy(x, target, reduction);
  require_broadcast("binary_cross_entropy", "weight", x, weight);
  const Variable losses = binary_cross_entropy(x, target, LossReduction::none);
  return reduced("binary_cross_entropy", losses * weight, reduction);
}

Variable bce_with_logits(const Variable& x, const Variable& target, LossReduction reduction,
                         const Variable& positive_weight) {
  if (!positive_weight.defined())
    return fused_loss({ElementwiseLossKind::bce_with_logits}, x, target, reduction);
  if (autocast::widens(x, target, positive_weight)) [[unlikely]]
    return bce_with_logits(autocast::wide(x), autocast::wide(target), reduction,
                           autocast::wide(positive_weight));
  require_one_shape("bce_with_logits", x, target);
  // softplus(-x) is log(1 + exp(-x)) without overflow; the loss is (1 - t) x + (1 + (w - 1) t) softplus(-x).
  return reduced("bce_with_logits",
                 (1.0 - target) * x + (1.0 + (positive_weight - 1.0) * target) * softplus(-x), reduction);
}

Variable binary_cross_entropy_with_logits(const Variable& x, const Variable& target, const Variable& weight,
                                          LossReduction reduction, const Variable& pos_weight) {
  const char* where = "binary_cross_entropy_with_logits";
  if (pos_weight.defined()) require_broadcast(where, "pos_weight", x, pos_weight);
  if (!weight.defined()) return bce_with_logits(x, target, reduction, pos_weight);
  require_broadcast(where, "weight", x, weight);
  return reduced(where, bce_with_logits(x, target, LossReduction::none, pos_weight) * weight, reduction);
}

KlReduction kl_reduction(std::string_view name) {
  if (name == "mean") return KlReduction::mean;
  if (name == "sum") return KlReduction::sum;
  if (name == "batchmean") return KlReduction::batchmean;
  require<ValueError>(name == "none",
                      "expected the reduction \"none\", \"mean\", \"sum\" or \"batchmean\", got \"", name,
                      "\"");
  return KlReduction::none;
}

Variable kl_div(const Variable& x, const Variable& target, LossReduction reduction, bool log_target) {
  if (autocast::widens(x, target)) [[unlikely]]
    return kl_div(autocast::wide(x), autocast::wide(target), reduction, log_target);
  if (log_target) return reduced("kl_div", exp(target) * (target - x), reduction);
  // t log t is 0 at 0, also for the gradient.
  const Tensor zero = equal(target, Scalar(0));
  const Variable logarithm = log(masked_fill(target, zero, 1.0));
  return reduced("kl_div", target * (logarithm - x), reduction);
}
Variable kl_div(const Variable& x, const Variable& target, KlReduction reduction, bool log_target) {
  require<ValueError>(reduction <= KlReduction::batchmean, "kl_div: expected a reduction, got the value ",
                      static_cast<int>(reduction));
  if (reduction != KlReduction::batchmean)
    return kl_div(x, target, static_cast<LossReduction>(reduction), log_target);
  const Variable total = kl_div(x, target, LossReduction::sum, log_target);
  return x.ndim() == 0 ? total : total / static_cast<double>(x.size(0));
}

Variable soft_margin_loss(const Variable& x, const Variable& target, LossReduction reduction) {
  if (autocast::widens(x, target)) [[unlikely]]
    return soft_margin_loss(autocast::wide(x), autocast::wide(target), reduction);
  require_one_shape("soft_margin_loss", x, target);
  return reduced("soft_margin_loss", softplus(neg(target * x)), reduction);
}

Variable multi_margin_loss(const Variable& x, const Tensor& targets, int64_t p, double margin,
                           const Tensor& weight, LossReduction reduction) {
  if (autocast::widens(x)) [[unlikely]]
    return multi_margin_loss(autocast::wide(x), targets, p, margin,
                             weight.defined() ? ops::cast(weight, f32) : weight, reduction);
  const char* where = "multi_margin_loss";
  require<ValueError>(p == 1 || p == 2, where, ": expected a p of 1 or 2, got ", p);
  check_option(where, "margin", margin);
  const Variable rows = as_rows(where, x);
  const int64_t count = rows.size(0), classes = rows.size(1);
  require<ShapeError>(targets.numel() == count && targets.ndim() == x.ndim() - 1, where,
                      ": expected a target for each of ", count, " rows, got ", targets.shape());
  check_class_weights(where, x, weight, classes);
  const Tensor ids = counted(where, targets, std::nullopt, classes).ids.reshape({count, 1});
  Variable distances = relu(rows - gather(rows, 1, ids) + margin);
  distances = masked_fill(distances, ops::equal(ops::arange(0, classes, 1, i64, ids.device()), ids), 0.0);
  if (p == 2) distances = square(distances);
  if (weight.defined())
    distances = distances * Variable(ops::index_select(weight, 0, ids.reshape({count})).unsqueeze(1));
  return reduced_rows(where, sum(distances, {1}) / static_cast<double>(classes), x.ndim() == 1, reduction);
}

Variable multilabel_margin_loss(const Variable& x, const Tensor& targets, LossReduction reduction) {
  if (autocast::widens(x)) [[unlikely]]
    return multilabel_margin_loss(autocast::wide(x), targets, reduction);
  const char* where = "multilabel_margin_loss";
  const Variable rows = as_rows(where, x);
  require<ShapeError>(targets.shape() == x.shape(), where, ": expected targets of x's shape ", x.shape(),
                      ", got ", targets.shape());
  const int64_t count = rows.size(0), classes = rows.size(1);
  const CountedTargets t = counted(where, targets.reshape({count, classes}), -1, classes);
  // Nothing counts behind the first -1: the number of those before and at a place is 0.
  const Tensor ended = ops::cumsum(ops::cast(ops::logical_not(t.counts), i64), 1);
  const Tensor is_listed = ops::equal(ended, Scalar(int64_t{0}));
  const Tensor ids = ops::where(is_listed, t.ids, Scalar(int64_t{0}));
  const Tensor listed = ops::cast(is_listed, x.dtype());
  const Tensor hits =
      ops::scatter_add(Tensor::zeros({count, classes}, x.dtype(), x.device()), 1, ids, listed);
  const Tensor others = ops::cast(ops::equal(hits, Scalar(0.0)), x.dtype());
  // (N, labels, classes)
  const Variable labels = unsqueeze(gather(rows, 1, ids), 2);
  const Variable distances = relu(unsqueeze(rows, 1) - labels + 1.0);
  const Variable pairs = Variable(ops::mul(listed.unsqueeze(2), others.unsqueeze(1)));
  return reduced_rows(where, sum(distances * pairs, {1, 2}) / static_cast<double>(classes), x.ndim() == 1,
                      reduction);
}

Variable multilabel_soft_margin_loss(const Variable& x, const Variable& target, const Variable& weight,
                                     LossReduction reduction) {
  const char* where = "multilabel_soft_margin_loss";
  require_one_shape(where, x, target);
  require<ShapeError>(x.ndim() >= 1, where, ": expected x (..., classes), got ()");
  Variable losses = bce_with_logits(x, target, LossReduction::none);
  if (weight.defined()) {
    require_broadcast(where, "weight", x, weight);
    losses = losses * weight;
  }
  return reduced(where, mean(losses, {-1}), reduction);
}

}  // namespace tessera
