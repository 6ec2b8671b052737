#include "autograd/functions/elementwise/ternary.h"

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/record.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/ternary.h"

namespace tessera {

Variable where(const Tensor& condition, const Variable& a, const Variable& b) {
  return record("where", ops::where(condition, a.value(), b.value()), {a, b}, saved(condition),
                [oa = OperandInfo(a), ob = OperandInfo(b)](Saved& s, const Incoming& dy,
                                                           const Wanted& wanted) -> Gradients {
                  const Variable none = Tensor::zeros_like(dy[0].value());
                  const Tensor chosen = s.tensor(0);
                  return {wanted[0] ? oa.gradient(where(chosen, dy[0], none)) : Variable(),
                          wanted[1] ? ob.gradient(where(chosen, none, dy[0])) : Variable()};
                });
}

Variable masked_fill(const Variable& x, const Tensor& mask, const Scalar& scalar) {
  require<ShapeError>(broadcast_shapes(x.shape(), mask.shape(), "masked_fill") == x.shape(),
                      "masked_fill: the mask ", mask.shape(), " does not broadcast to ", x.shape());
  return where(mask, Variable(ops::full({}, scalar, x.dtype(), x.device())), x);
}

Variable where(const Tensor& condition, const Variable& a, const Scalar& b) {
  return where(condition, a, Variable(ops::full({}, b, a.dtype(), a.device())));
}

Variable where(const Tensor& condition, const Scalar& a, const Variable& b) {
  return where(condition, Variable(ops::full({}, a, b.dtype(), b.device())), b);
}

Variable clamp(const Variable& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  return record("clamp", ops::clamp(x.value(), low, high), {x}, saved(x),
                [low, high](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  const Tensor a = s.tensor(0);
                  Tensor inside = low ? ops::greater_equal(a, *low) : ops::less_equal(a, *high);
                  if (low && high) inside = ops::logical_and(inside, ops::less_equal(a, *high));
                  return {where(inside, dy[0], Variable(Tensor::zeros_like(dy[0].value())))};
                });
}

Variable clamp_min(const Variable& x, const Scalar& min) {
  return clamp(x, min, std::nullopt);
}

Variable clamp_max(const Variable& x, const Scalar& max) {
  return clamp(x, std::nullopt, max);
}

Variable lerp(const Variable& a, const Variable& b, double weight) {
  return record("lerp", ops::lerp(a.value(), b.value(), weight), {a, b}, saved(),
                [=, oa = OperandInfo(a), ob = OperandInfo(b)](Saved&, const Incoming& dy,
                                                              const Wanted& wanted) -> Gradients {
                  return {wanted[0] ? oa.gradient(dy[0] * (1 - weight)) : Variable(),
                          wanted[1] ? ob.gradient(dy[0] * weight) : Variable()};
                });
}

Variable addcmul(const Variable& x, const Variable& a, const Variable& b, double factor) {
  return record("addcmul", ops::addcmul(x.value(), a.value(), b.value(), factor), {x, a, b},
                saved(saved_if(b.requires_grad(), a), saved_if(a.requires_grad(), b)),
                [=, ox = OperandInfo(x), oa = OperandInfo(a), ob = OperandInfo(b)](
                    Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
                  return {wanted[0] ? ox.gradient(dy[0]) : Variable(),
                          wanted[1] ? oa.gradient(dy[0] * s[1] * factor) : Variable(),
                          wanted[2] ? ob.gradient(dy[0] * s[0] * factor) : Variable()};
                });
}

Variable addcdiv(const Variable& x, const Variable& a, const Variable& b, double factor) {
  return record("addcdiv", ops::addcdiv(x.value(), a.value(), b.value(), factor), {x, a, b},
                saved(saved_if(b.requires_grad(), a), b),
                [=, ox = OperandInfo(x), oa = OperandInfo(a), ob = OperandInfo(b)](
                    Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
                  const Variable da = dy[0] * factor / s[1];
                  return {wanted[0] ? ox.gradient(dy[0]) : Variable(),
                          wanted[1] ? oa.gradient(da) : Variable(),
                          wanted[2] ? ob.gradient(neg(da * s[0] / s[1])) : Variable()};
                });
}

}  // namespace tessera
