#include "autograd/functions/elementwise/activation_function.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/composed.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/in_place.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/nondifferentiable.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/elementwise/activation_function.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/in_place.h"
#include "tensor/ops/elementwise/unary.h"

namespace tessera {
using X = Variable;
namespace {

/// f''(x), of differentiable functions.
Variable curvature(const ActivationFunction& f, const Variable& x) {
  switch (f.kind) {
    case ActivationKind::elu: {
      const Tensor positive = ops::greater(x.value(), Scalar(0.0));
      return masked_fill(exp(clamp_max(x, 0.0) * f.c) * (f.b * f.c * f.c), positive, 0.0);
    }
    case ActivationKind::hardswish: {
      const Tensor outside = ops::greater_equal(ops::abs(x.value()), Scalar(3.0));
      return masked_fill(x * 0.0 + 1.0 / 3, outside, 0.0);
    }
    case ActivationKind::logsigmoid: {
      const Variable s = sigmoid(x);
      return s * (s - 1.0);
    }
    case ActivationKind::mish: {
      // x t with t = tanh(p), p = log(1 + e^x), s = sigmoid(x): t' = (1 - t^2) s.
      const Variable s = sigmoid(x), t = tanh(softplus(x)), u = 1.0 - square(t);
      return u * s * (2.0 + x * (1.0 - s) - x * t * s * 2.0);
    }
    case ActivationKind::softplus: {
      const Variable s = sigmoid(x * f.a);
      const Tensor linear = ops::greater(ops::mul(x.value(), Scalar(f.a)), Scalar(f.b));
      return masked_fill(s * (1.0 - s) * f.a, linear, 0.0);
    }
    case ActivationKind::softsign: {
      const Variable inverse = reciprocal(abs(x) + 1.0);
      return inverse * inverse * inverse * sign(x) * -2.0;
    }
    case ActivationKind::tanhshrink: {
      const Variable t = tanh(x);
      return t * (1.0 - square(t)) * 2.0;
    }
    default:
      return x * 0.0;  // piecewise linear
  }
}

Variable apply(const ActivationFunction& f, const Variable& x) {
  return activation(f, x);
}

const Tensor& values_of(const Variable& x) {
  return x.value();
}

/// x becomes f(x): `compute(copy)` where that is recorded, else by `change`, which needs no memory.
template <class Change, class Compute>
void replace(const char* name, const Variable& x, Change change, Compute compute) {
  if (!Inputs{x}.recorded())
    return record_in_place(name, x, {x}, saved(), change,
                           [](Saved&, const Incoming&, const Wanted&) -> Gradients { return {}; });
  detail::check_in_place(name, x, true);
  copy_(x, compute(clone(x)));
}

void apply_in_place(const char* name, const ActivationFunction& f, const Variable& x) {
  replace(
      name, x, [&] { ops::activation_(f, x.value()); }, [&](const Variable& a) { return activation(f, a); });
}

Variable sloped_backward(const Variable& x, const Variable& slope, const Variable& dy);

/// x where it is above 0, else slope x.
Variable sloped(const Variable& x, const Variable& slope) {
  if (autocast::lowers(x, slope)) [[unlikely]]
    return sloped(autocast::low(x), autocast::low(slope));
  return record("prelu", ops::sloped_relu(x.value(), slope.value()), {x, slope}, saved(x, slope),
                [o = OperandInfo(slope)](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
                  Gradients gradients(2);
                  if (wanted[0]) gradients[0] = sloped_backward(s[0], s[1], dy[0]);
                  if (!wanted[1]) return gradients;
                  // x dy for x below 0: the minimum of x and 0 is differentiable in x.
                  gradients[1] = grad_mode()
                                     ? o.gradient(dy[0] * neg(relu(neg(s[0]))))
                                     : o.gradient(Variable(ops::slope_backward(s.tensor(0), dy[0].value())));
                  return gradients;
                });
}

/// dy where x is above 0, else slope dy: linear in dy and in slope.
Variable sloped_backward(const Variable& x, const Variable& slope, const Variable& dy) {
  return record("prelu_backward", ops::sloped_relu_backward(x.value(), slope.value(), dy.value()),
                {x, slope, dy}, saved(x, slope, dy),
                [o = OperandInfo(slope)](Saved& s, const Incoming& g, const Wanted& wanted) -> Gradients {
                  Gradients gradients(3);
                  const Tensor positive = ops::greater(s.tensor(0), Scalar(0.0));
                  if (wanted[0]) gradients[0] = Variable(Tensor::zeros_like(g[0].value()));
                  if (wanted[1]) gradients[1] = o.gradient(masked_fill(g[0] * s[2], positive, 0.0));
                  if (wanted[2]) gradients[2] = sloped_backward(s[0], s[1], g[0]);
                  return gradients;
                });
}

void sloped_in_place(const char* name, const Variable& x, const Tensor& slope) {
  replace(
      name, x, [&] { ops::copy_(x.value(), ops::sloped_relu(x.value(), slope)); },
      [&](const Variable& a) { return sloped(a, Variable(slope)); });
}

}  // namespace

Variable activation(const ActivationFunction& f, const Variable& x) {
  return record(name_of(f.kind), ops::activation(f, x.value()), {x}, saved(x),
                [f](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  return {activation_backward(f, s[0], dy[0])};
                });
}

Variable activation_backward(const ActivationFunction& f, const Variable& x, const Variable& dy) {
  return record("activation_backward", ops::activation_backward(f, x.value(), dy.value()), {x, dy},
                saved(x, saved_if(x.requires_grad(), dy)),
                [f](Saved& s, const Incoming& g, const Wanted& wanted) -> Gradients {
                  return {wanted[0] ? g[0] * s[1] * curvature(f, s[0]) : Variable(),
                          wanted[1] ? activation_backward(f, s[0], g[0]) : Variable()};
                });
}

}  // namespace tessera

#include "tensor/composed/activations.inc"

namespace tessera {

Variable softplus(const Variable& x, double beta, double threshold) {
  if (autocast::widens(x)) [[unlikely]]
    return softplus(autocast::wide(x), beta, threshold);
  return activation(softplus_of(beta, threshold), x);
}

}  // namespace tessera
