#include "autograd/functions/layers/normalization.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/layers/dropout.h"
#include "autograd/functions/reduction.h"
#include "autograd/recompute/recompute.h"
#include "autograd/record.h"
#include "tensor/ops/layers/normalization.h"
#include "tensor/random/random_context.h"

namespace tessera {
namespace {

int64_t axes_of(const Variable& weight, const Variable& bias) {
  if (weight.defined()) return weight.ndim();
  return bias.defined() ? bias.ndim() : 1;
}

Tensor value_of(const Variable& x) {
  return x.defined() ? x.value() : Tensor();
}

Shape last_axes(int64_t axes) {
  Shape list;
  for (int64_t i = axes; i > 0; --i) list.push_back(-i);
  return list;
}

/// Attaches the recompute function of a norm, which reads what the norm's own backward keeps.
void attach_norm_recompute(const Variable& y, const char* name, const SavedItem& x, const Variable& weight,
                           const Variable& bias, const ops::Normalized& normal) {
  attach_recompute(
      y, name, std::array<SavedItem, 5>{x, weight, bias, normal.mean, normal.rstd},
      [](std::span<const Tensor> v) { return ops::recompute_normalized(v[0], v[1], v[2], v[3], v[4]); });
}

struct NormGradients {
  Variable x, weight, bias;
};

/// The backward in differentiable functions, from x only, for create_graph.
NormGradients composed_backward(const Variable& x, const Variable& weight, const Variable& dy,
                                const Shape& bias_shape, int64_t axes, double epsilon, bool centred,
                                const ops::NormalizationNeedsGrad& needs_grad) {
  const Shape over = last_axes(axes);
  const Variable centre = centred ? x - mean(x, over, true) : x;
  const Variable r = rsqrt(mean(square(centre), over, true) + epsilon);
  const Variable normal = centre * r;
  const Variable g = weight.defined() ? dy * weight : dy;
  NormGradients gradients;
  if (needs_grad.x) {
    const Variable along = g - normal * mean(g * normal, over, true);
    gradients.x = r * (centred ? along - mean(g, over, true) : along);
  }
  if (needs_grad.weight) gradients.weight = sum_to(dy * normal, weight.shape());
  if (needs_grad.bias) gradients.bias = sum_to(dy, bias_shape);
  return gradients;
}

/// `needs_grad`, with the gradient written over `normalized` if nothing reads that later.
ops::NormalizationNeedsGrad with_overwrite(ops::NormalizationNeedsGrad needs_grad, const Tensor& normalized) {
  needs_grad.overwrite_x = is_only_handle(normalized);
  return needs_grad;
}

/// A norm without a preceding addition: x, weight and bias to y.
Variable norm(const char* name, const Variable& x, const Variable& weight, const Variable& bias,
              double epsilon, int64_t axes, const ops::Normalized& normal) {
  Variable y = record(
      name, normal.y, {x, weight, bias}, saved(x, weight, normal.mean, normal.rstd),
      [axes, epsilon, bias_shape = bias.defined() ? bias.shape() : Shape()](
          Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
        const ops::NormalizationNeedsGrad needs_grad{.x = wanted[0], .weight = wanted[1], .bias = wanted[2]};
        if (grad_mode()) {
          const NormGradients g =
              composed_backward(s[0], s[1], dy[0], bias_shape, axes, epsilon, s.defined(2), needs_grad);
          return {g.x, g.weight, g.bias};
        }
        const Tensor w = s.tensor(1), mean = s.tensor(2), rstd = s.tensor(3), x_value = s.take(0);
        const ops::NormalizationGradients g = ops::normalization_backward(
            dy[0].value(), x_value, w, mean, rstd, axes, with_overwrite(needs_grad, x_value));
        return {Variable(g.x), Variable(g.weight), Variable(g.bias)};
      });
  attach_norm_recompute(y, name, x, weight, bias, normal);
  return y;
}

/// The rule of a norm with a preceding addition: from the gradients of the sum and of its norm, in one pass,
/// those of x, delta, weight and bias.
struct AddNormRule {
  DropoutMask mask;
  bool has_delta;
  Shape bias_shape;
  int64_t axes;
  double epsilon;
  RandomContext context;

  Gradients operator()(Saved& s, const Incoming& dy, const Wanted& wanted) const {
    RandomContextScope forward_context(context);
    const bool needs_sum_grad = wanted[0] || wanted[1];
    if (!dy.defined(1)) return split(dy[0], wanted);
    const ops::NormalizationNeedsGrad needs_grad{
        .x = wanted[0], .weight = wanted[2], .bias = wanted[3], .delta = has_delta && wanted[1]};
    if (grad_mode()) {
      ops::NormalizationNeedsGrad sum_needs_grad = needs_grad;
      sum_needs_grad.x = needs_sum_grad;
      const NormGradients g =
          composed_backward(s[0], s[1], dy[1], bias_shape, axes, epsilon, s.defined(2), sum_needs_grad);
      Gradients gradients = split(needs_sum_grad && dy.defined(0) ? dy[0] + g.x : g.x, wanted);
      gradients[2] = g.weight, gradients[3] = g.bias;
      return gradients;
    }
    const Tensor w = s.tensor(1), mean = s.tensor(2), rstd = s.tensor(3), sum = s.take(0);
    const ops::NormalizationGradients g =
        ops::add_normalization_backward(dy.defined(0) ? dy[0].value() : Tensor(), dy[1].value(), sum, mask, w,
                                        mean, rstd, axes, with_overwrite(needs_grad, sum));
    const Variable dx(g.x);
    return {wanted[0] ? dx : Variable(),
            has_delta && mask.probability == 0 && wanted[1] ? dx : Variable(g.delta), Variable(g.weight),
            Variable(g.bias)};
  }

  /// The gradients of x and delta from that of the sum.
  Gradients split(const Variable& dsum, const Wanted& wanted) const {
    Gradients gradients(4);
    if (wanted[0]) gradients[0] = dsum;
    if (has_delta && wanted[1]) gradients[1] = mask.probability == 0 ? dsum : dropout(dsum, mask);
    return gradients;
  }
};

/// `mask` with the layout that it has for delta; none without dropout or delta.
DropoutMask delta_mask(const char* name, const DropoutMask& mask, const Variable& delta) {
  return mask.probability == 0 || !delta.defined() ? DropoutMask() : resolved_mask(name, mask, delta);
}

SumAndNorm add_norm(const char* name, const Variable& x, const Variable& delta, const DropoutMask& mask,
                    const Variable& weight, const Variable& bias, double epsilon, int64_t axes,
                    const ops::Normalized& normal) {
  const bool has_delta = delta.defined();
  const std::vector<Tensor> outputs{has_delta ? normal.sum : x.value(), normal.y};
  AddNormRule rule{.mask = mask,
                   .has_delta = has_delta,
                   .bias_shape = bias.defined() ? bias.shape() : Shape(),
                   .axes = axes,
                   .epsilon = epsilon,
                   .context = mask.probability == 0 ? RandomContext() : random_context().without_calls()};
  const std::vector<Variable> results =
      record(name, outputs, {x, delta, weight, bias},
             saved(saved_output(0), weight, normal.mean, normal.rstd), std::move(rule));
  if (!has_delta) detail::mark_as_view(results[0], x, ViewKind::one_of_several);
  attach_norm_recompute(results[1], name, outputs[0], weight, bias, normal);
  return {results[0], results[1]};
}

}  // namespace

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double epsilon) {
  if (autocast::widens(x, weight, bias)) [[unlikely]]
    return layer_norm(autocast::wide(x), autocast::wide(weight), autocast::wide(bias), epsilon);
  const int64_t axes = axes_of(weight, bias);
  return norm("layer_norm", x, weight, bias, epsilon, axes,
              ops::layer_norm(x.value(), value_of(weight), value_of(bias), epsilon, axes));
}

Variable rms_norm(const Variable& x, const Variable& weight, double epsilon) {
  if (autocast::widens(x, weight)) [[unlikely]]
    return rms_norm(autocast::wide(x), autocast::wide(weight), epsilon);
  const int64_t axes = axes_of(weight, {});
  return norm("rms_norm", x, weight, {}, epsilon, axes,
              ops::rms_norm(x.value(), value_of(weight), epsilon, axes));
}

SumAndNorm add_layer_norm(const Variable& x, const Variable& delta, const DropoutMask& mask,
                          const Variable& weight, const Variable& bias, double epsilon) {
  if (autocast::mixes(x, delta, weight, bias)) [[unlikely]] {
    const std::vector<Variable> all = autocast::in_widest({x, delta, weight, bias});
    return add_layer_norm(all[0], all[1], mask, all[2], all[3], epsilon);
  }
  const int64_t axes = axes_of(weight, bias);
  const Tensor w = value_of(weight), b = value_of(bias);
  const DropoutMask resolved = delta_mask("add_layer_norm", mask, delta);
  return add_norm("add_layer_norm", x, delta, resolved, weight, bias, epsilon, axes,
                  delta.defined()
                      ? ops::add_layer_norm(x.value(), delta.value(), resolved, w, b, epsilon, axes)
                      : ops::layer_norm(x.value(), w, b, epsilon, axes));
}

SumAndNorm add_rms_norm(const Variable& x, const Variable& delta, const DropoutMask& mask,
                        const Variable& weight, double epsilon) {
  if (autocast::mixes(x, delta, weight)) [[unlikely]] {
    const std::vector<Variable> all = autocast::in_widest({x, delta, weight});
    return add_rms_norm(all[0], all[1], mask, all[2], epsilon);
  }
  const int64_t axes = axes_of(weight, {});
  const Tensor w = value_of(weight);
  const DropoutMask resolved = delta_mask("add_rms_norm", mask, delta);
  return add_norm("add_rms_norm", x, delta, resolved, weight, {}, epsilon, axes,
                  delta.defined() ? ops::add_rms_norm(x.value(), delta.value(), resolved, w, epsilon, axes)
                                  : ops::rms_norm(x.value(), w, epsilon, axes));
}

}  // namespace tessera
