#include "autograd/functions/normalization.h"

#include "autograd/functions/arithmetic.h"
#include "autograd/functions/broadcasting.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/unary.h"
#include "autograd/record.h"
#include "tensor/ops/normalization.h"

namespace tessera {
namespace {

int64_t axes_of(const Variable& weight, const Variable& bias) {
  if (weight.defined()) return weight.rank();
  return bias.defined() ? bias.rank() : 1;
}

Tensor value_of(const Variable& x) {
  return x.defined() ? x.value() : Tensor();
}

Shape last_axes(int64_t axes) {
  Shape list;
  for (int64_t i = axes; i > 0; --i) list.push_back(-i);
  return list;
}

/// The backward in differentiable functions, from x alone: what create_graph differentiates again.
Gradients composed_backward(const Variable& x, const Variable& weight, const Variable& dy,
                            const Shape& bias_shape, int64_t axes, double epsilon, bool centred,
                            const Wanted& wanted) {
  const Shape over = last_axes(axes);
  const Variable centre = centred ? x - mean(x, over, true) : x;
  const Variable r = rsqrt(mean(square(centre), over, true) + epsilon);
  const Variable normal = centre * r;
  const Variable g = weight.defined() ? dy * weight : dy;
  Gradients gradients(centred ? 3 : 2);
  if (wanted[0]) {
    const Variable along = g - normal * mean(g * normal, over, true);
    gradients[0] = r * (centred ? along - mean(g, over, true) : along);
  }
  if (wanted[1]) gradients[1] = sum_to(dy * normal, weight.shape());
  if (centred && wanted[2]) gradients[2] = sum_to(dy, bias_shape);
  return gradients;
}

}  // namespace

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double epsilon) {
  const int64_t axes = axes_of(weight, bias);
  const ops::Normalized normal = ops::layer_norm(x.value(), value_of(weight), value_of(bias), epsilon, axes);
  return record("layer_norm", normal.y, {x, weight, bias}, saved(x, weight, normal.mean, normal.rstd),
                [axes, epsilon, bias_shape = bias.defined() ? bias.shape() : Shape()](
                    Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
                  if (grad_mode())
                    return composed_backward(s[0], s[1], dy[0], bias_shape, axes, epsilon, true, wanted);
                  const ops::NormalizationGradients g = ops::normalization_backward(
                      dy[0].value(), s.tensor(0), s.tensor(1), s.tensor(2), s.tensor(3), axes,
                      {.x = wanted[0], .weight = wanted[1], .bias = wanted[2]});
                  return {Variable(g.x), Variable(g.weight), Variable(g.bias)};
                });
}

Variable rms_norm(const Variable& x, const Variable& weight, double epsilon) {
  const int64_t axes = axes_of(weight, {});
  const ops::Normalized normal = ops::rms_norm(x.value(), value_of(weight), epsilon, axes);
  return record("rms_norm", normal.y, {x, weight}, saved(x, weight, normal.rstd),
                [axes, epsilon](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
                  if (grad_mode())
                    return composed_backward(s[0], s[1], dy[0], {}, axes, epsilon, false, wanted);
                  const ops::NormalizationGradients g =
                      ops::normalization_backward(dy[0].value(), s.tensor(0), s.tensor(1), {}, s.tensor(2),
                                                  axes, {.x = wanted[0], .weight = wanted[1], .bias = false});
                  return {Variable(g.x), Variable(g.weight)};
                });
}

}  // namespace tessera
