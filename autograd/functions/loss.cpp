#include "autograd/functions/loss.h"

#include "autograd/functions/activation.h"
#include "autograd/functions/arithmetic.h"
#include "autograd/functions/cast.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/softmax.h"
#include "autograd/functions/unary.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/cast.h"
#include "tensor/ops/creation.h"
#include "tensor/ops/reduction.h"
#include "tensor/ops/ternary.h"

namespace tessera {
namespace {

Variable reduced(const Variable& losses, LossReduction reduction) {
  if (reduction == LossReduction::none) return losses;
  return reduction == LossReduction::sum ? sum(losses) : mean(losses);
}

/// The gradient at the logits in differentiable functions. A row's loss is linear in log softmax with
/// coefficients -c[k] that do not depend on the logits, so it is sum(c) softmax - c, times what arrives.
Variable composed_backward(const Variable& logits, const Tensor& targets, const Tensor& weight,
                           const Variable& dloss, const Tensor& divisor, const CrossEntropyOptions& o) {
  const int64_t classes = logits.size(-1);
  const DType type = logits.dtype();
  const Tensor ids = ops::cast(targets, i64);
  const Tensor counts = ops::not_equal(ids, Scalar(o.ignore_index));
  const Tensor safe = ops::where(counts, ids, Scalar(int64_t{0}));
  Tensor c = ops::mul(ops::one_hot(safe, classes, type), Scalar(1.0 - o.label_smoothing));
  c = ops::add(c, Scalar(o.label_smoothing / static_cast<double>(classes)));
  if (weight.defined()) c = ops::mul(c, weight);
  c = ops::mul(c, ops::cast(counts.unsqueeze(-1), type));
  Variable arriving = dloss;
  if (o.reduction == LossReduction::mean) arriving = arriving / Variable(ops::cast(divisor, type));
  if (o.reduction == LossReduction::none) arriving = unsqueeze(arriving, -1);
  const Variable total = ops::sum(c, {-1}, true);
  return cast(arriving * (total * softmax(logits, -1) - Variable(c)), type);
}

}  // namespace

Variable cross_entropy(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options,
                       const Tensor& weight) {
  const ops::CrossEntropy forward = ops::cross_entropy(logits.value(), targets, weight, options);
  return record(
      "cross_entropy", forward.loss, {logits},
      saved(logits, targets, weight, forward.log_sum_exp, forward.divisor),
      [options](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
        if (grad_mode())
          return {composed_backward(s[0], s.tensor(1), s.tensor(2), dy[0], s.tensor(4), options)};
        return {Variable(ops::cross_entropy_backward(dy[0].value(), s.tensor(0), s.tensor(1), s.tensor(2),
                                                     {{}, s.tensor(3), s.tensor(4)}, options))};
      });
}

Variable mse_loss(const Variable& x, const Variable& target, LossReduction reduction) {
  require<ShapeError>(x.shape() == target.shape(), "mse_loss: x is ", to_string(x), ", the target ",
                      to_string(target));
  return reduced(square(x - target), reduction);
}

Variable bce_with_logits(const Variable& x, const Variable& target, LossReduction reduction,
                         const Variable& positive_weight) {
  require<ShapeError>(x.shape() == target.shape(), "bce_with_logits: x is ", to_string(x), ", the target ",
                      to_string(target));
  // softplus(-x) is log(1 + exp(-x)) without overflow; the loss is (1 - t) x + (1 + (w - 1) t) softplus(-x).
  const Variable losses = positive_weight.defined()
                              ? (1.0 - target) * x + (1.0 + (positive_weight - 1.0) * target) * softplus(-x)
                              : (1.0 - target) * x + softplus(-x);
  return reduced(losses, reduction);
}

}  // namespace tessera
