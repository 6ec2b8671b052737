#include "autograd/functions/layers/loss.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/losses/classification.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/layers/loss.h"
#include "tensor/ops/reduction.h"

namespace tessera {
namespace {

/// The gradient of the logits in differentiable functions. A row's loss is linear in log softmax with
/// coefficients -c[k] that do not depend on the logits, so the gradient is (sum(c) softmax - c) dloss.
Variable composed_backward(const Variable& logits, const Tensor& targets, const Tensor& weight,
                           const Variable& dloss, const Tensor& divisor, const CrossEntropyOptions& o) {
  const int64_t classes = logits.size(-1);
  const DType type = logits.dtype();
  const Tensor ids = ops::cast(targets, i64);
  const Tensor counted = ops::not_equal(ids, Scalar(o.ignore_index));
  const Tensor valid_ids = ops::where(counted, ids, Scalar(int64_t{0}));
  Tensor c = ops::mul(ops::one_hot(valid_ids, classes, type), Scalar(1.0 - o.label_smoothing));
  c = ops::add(c, Scalar(o.label_smoothing / static_cast<double>(classes)));
  if (weight.defined()) c = ops::mul(c, weight);
  c = ops::mul(c, ops::cast(counted.unsqueeze(-1), type));
  Variable scale = dloss;
  if (o.reduction == LossReduction::mean) scale = scale / Variable(ops::cast(divisor, type));
  if (o.reduction == LossReduction::none) scale = unsqueeze(scale, -1);
  const Variable total = ops::sum(c, {-1}, true);
  // Where no target counts the scale is infinite, and a gradient of 0 would be NaN.
  scale = where(counted.unsqueeze(-1), scale, Scalar(0));
  return cast(scale * (total * softmax(logits, -1) - Variable(c)), type);
}

}  // namespace

Variable cross_entropy(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options,
                       const Tensor& weight) {
  if (targets.defined() && is_floating(targets.dtype()) && targets.shape() == logits.shape() &&
      targets.ndim() > 0)
    return cross_entropy(logits, Variable(targets), options, weight);
  // The kernels compute halves in f32: a cast would only take memory. Class weights of f32 need it.
  if (autocast::widens(logits) && weight.defined() && weight.dtype() != logits.dtype()) [[unlikely]]
    return cross_entropy(autocast::wide(logits), targets, options, ops::cast(weight, f32));
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

namespace {

/// The gradient in saved value `i` times `dloss`; without a pass where the host knows that to be 1, and in
/// place where nothing else holds it. Releases the saved value.
Variable scaled(const Saved& s, size_t i, const Tensor& dloss) {
  const Tensor gradient = s.take(i);
  if (dloss.is_meta() || (dloss.device().is_cpu() && dloss.item() == 1.0)) return gradient;
  const Tensor factor = ops::cast(dloss, gradient.dtype());
  if (!is_only_handle(gradient)) return ops::cast(ops::mul(gradient, factor), gradient.dtype());
  ops::mul_(gradient, factor);
  return gradient;
}

}  // namespace

Variable linear_cross_entropy(const Variable& x, const Variable& weight, const Tensor& targets,
                              const CrossEntropyOptions& options, const Variable& bias,
                              const Tensor& class_weight) {
  if (autocast::lowers(x, weight, bias)) [[unlikely]]
    return linear_cross_entropy(autocast::low(x), autocast::low(weight), targets, options,
                                autocast::low(bias), class_weight);
  const bool rounds_class_weight =
      is_autocast_enabled() && class_weight.defined() && class_weight.dtype() != x.dtype();
  if (options.reduction == LossReduction::none || rounds_class_weight)
    return cross_entropy(linear(x, weight, bias), targets, options, class_weight);
  const bool recorded = Inputs{x, weight, bias}.recorded();
  const ops::LinearCrossEntropy forward = ops::linear_cross_entropy(
      x.value(), weight.value(), bias.defined() ? bias.value() : Tensor(), targets, class_weight, options,
      {.x = recorded && x.requires_grad(),
       .weight = recorded && weight.requires_grad(),
       .bias = recorded && bias.requires_grad()});
  return record("linear_cross_entropy", forward.loss, {x, weight, bias},
                saved(forward.x, forward.weight, forward.bias, x, weight, bias, targets, class_weight),
                [options](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
                  Gradients gradients(3);
                  std::vector<Variable> sources;
                  for (size_t i = 0; i < 3; ++i) {
                    if (!wanted[i]) continue;
                    if (grad_mode())
                      sources.push_back(s[i + 3]);
                    else
                      gradients[i] = scaled(s, i, dy[0].value());
                  }
                  if (sources.empty()) return gradients;
                  const Variable loss =
                      cross_entropy(linear(s[3], s[4], s[5]), s.tensor(6), options, s.tensor(7));
                  const std::vector<Variable> found =
                      grad(std::vector{loss}, sources, std::vector{dy[0]}, {.create_graph = true});
                  for (size_t i = 0, next = 0; i < 3; ++i)
                    if (wanted[i]) gradients[i] = found[next++];
                  return gradients;
                });
}

}  // namespace tessera
