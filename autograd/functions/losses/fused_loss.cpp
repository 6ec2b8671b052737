#include "autograd/functions/losses/fused_loss.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/record.h"
#include "tensor/ops/elementwise/promotion.h"
#include "tensor/ops/losses/elementwise_loss.h"

namespace tessera {
namespace {

using V = const Variable&;

/// Whether the loss is a function of x - target.
bool is_of_difference(ElementwiseLossKind kind) {
  return kind != ElementwiseLossKind::bce_with_logits && kind != ElementwiseLossKind::binary_cross_entropy;
}

/// The derivative at x, of differentiable functions.
Variable slope(const ElementwiseLoss& f, V x, V t) {
  switch (f.kind) {
    case ElementwiseLossKind::l1_loss:
      return sign(x - t);
    case ElementwiseLossKind::mse_loss:
      return (x - t) * 2.0;
    case ElementwiseLossKind::huber_loss:
      return clamp(x - t, -f.p, f.p);
    case ElementwiseLossKind::smooth_l1_loss:
      return clamp((x - t) / f.p, -1.0, 1.0);
    case ElementwiseLossKind::bce_with_logits:
      return sigmoid(x) - t;
    case ElementwiseLossKind::binary_cross_entropy:
      return (x - t) / clamp_min(x * (1.0 - x), 1e-12);
  }
  return {};
}

/// The derivative at the target of a loss that is not of the difference.
Variable target_slope(const ElementwiseLoss& f, V x) {
  if (f.kind == ElementwiseLossKind::bce_with_logits) return neg(x);
  return clamp_min(log1p(neg(x)), -100.0) - clamp_min(log(x), -100.0);
}

/// dy as it reaches every element: divided by their number for a mean.
Variable shared(V dy, LossReduction reduction, int64_t elements) {
  return reduction == LossReduction::mean ? dy / static_cast<double>(elements) : dy;
}

}  // namespace

Variable fused_loss(const ElementwiseLoss& f, V x, V target, LossReduction reduction) {
  if (autocast::widens(x, target)) [[unlikely]]
    return fused_loss(f, autocast::wide(x), autocast::wide(target), reduction);
  if (x.defined() && target.defined() && x.dtype() != target.dtype()) [[unlikely]] {
    const DType type = ops::promote(x.dtype(), target.dtype(), name_of(f.kind));
    return fused_loss(f, cast(x, type), cast(target, type), reduction);
  }
  return record(
      name_of(f.kind), ops::elementwise_loss(f, x.value(), target.value(), reduction), {x, target},
      saved(x, target), [f, reduction](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
        Gradients gradients(2);
        const bool of_difference = is_of_difference(f.kind), composed = grad_mode();
        const int64_t elements = s.tensor(0).numel();
        Variable dx;
        if (wanted[0] || of_difference)
          dx = composed ? shared(dy[0], reduction, elements) * slope(f, s[0], s[1])
                        : Variable(ops::elementwise_loss_backward(f, dy[0].value(), s.tensor(0), s.tensor(1),
                                                                  reduction));
        if (wanted[0]) gradients[0] = dx;
        if (wanted[1])
          gradients[1] = of_difference ? neg(dx) : shared(dy[0], reduction, elements) * target_slope(f, s[0]);
        return gradients;
      });
}

}  // namespace tessera
