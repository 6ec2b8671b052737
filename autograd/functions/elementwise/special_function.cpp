#include "autograd/functions/elementwise/special_function.h"

#include <limits>
#include <numbers>

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/record.h"
#include "tensor/composed/elementwise/special.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/special_function.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/elementwise/unary.h"

namespace tessera {
using X = Variable;
namespace {

const Tensor& values_of(const Variable& x) {
  return x.value();
}

}  // namespace

/// A function of x that saves x, and its derivative as a function of `x`.
#define TESSERA_DEFINE(name, derivative)                                         \
  Variable name(const Variable& operand) {                                       \
    if (autocast::widens(operand)) [[unlikely]]                                  \
      return name(autocast::wide(operand));                                      \
    return record(#name, ops::name(operand.value()), {operand}, saved(operand),  \
                  [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients { \
                    const Variable x = s[0];                                     \
                    return {dy[0] * (derivative)};                               \
                  });                                                            \
  }
TESSERA_DEFINE(asin, rsqrt(1.0 - square(x)))
TESSERA_DEFINE(acos, neg(rsqrt(1.0 - square(x))))
TESSERA_DEFINE(atan, reciprocal(square(x) + 1.0))
TESSERA_DEFINE(asinh, rsqrt(square(x) + 1.0))
TESSERA_DEFINE(acosh, rsqrt(square(x) - 1.0))
TESSERA_DEFINE(atanh, reciprocal(1.0 - square(x)))
TESSERA_DEFINE(lgamma, digamma(x))
TESSERA_DEFINE(digamma, polygamma(1, x))
#undef TESSERA_DEFINE

Variable polygamma(int64_t n, const Variable& x) {
  if (autocast::widens(x)) [[unlikely]]
    return polygamma(n, autocast::wide(x));
  return record("polygamma", ops::polygamma(n, x.value()), {x}, saved(x),
                [n](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  return {dy[0] * polygamma(n + 1, s[0])};
                });
}

Variable erfinv(const Variable& x) {
  if (autocast::widens(x)) [[unlikely]]
    return erfinv(autocast::wide(x));
  return record("erfinv", ops::erfinv(x.value()), {x}, saved(saved_output(0)),
                [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  return {dy[0] * exp(square(s[0])) * (0.5 / std::numbers::inv_sqrtpi)};
                });
}

Variable atan2(const Variable& y, const Variable& x) {
  if (autocast::widens(y, x)) [[unlikely]]
    return atan2(autocast::wide(y), autocast::wide(x));
  return record("atan2", ops::atan2(y.value(), x.value()), {y, x}, saved(y, x),
                [oy = OperandInfo(y), ox = OperandInfo(x)](Saved& s, const Incoming& dy,
                                                           const Wanted& wanted) -> Gradients {
                  const Variable squares = square(s[0]) + square(s[1]);
                  const Tensor origin = ops::equal(squares.value(), Scalar(0));
                  const Variable factor = dy[0] * masked_fill(reciprocal(squares), origin, 0.0);
                  return {wanted[0] ? oy.gradient(factor * s[1]) : Variable(),
                          wanted[1] ? ox.gradient(neg(factor * s[0])) : Variable()};
                });
}

Variable hypot(const Variable& a, const Variable& b) {
  if (autocast::widens(a, b)) [[unlikely]]
    return hypot(autocast::wide(a), autocast::wide(b));
  return record("hypot", ops::hypot(a.value(), b.value()), {a, b}, saved(a, b, saved_output(0)),
                [oa = OperandInfo(a), ob = OperandInfo(b)](Saved& s, const Incoming& dy,
                                                           const Wanted& wanted) -> Gradients {
                  return {wanted[0] ? oa.gradient(dy[0] * (s[0] / s[2])) : Variable(),
                          wanted[1] ? ob.gradient(dy[0] * (s[1] / s[2])) : Variable()};
                });
}

Variable copysign(const Variable& a, const Variable& b) {
  if (autocast::widens(a, b)) [[unlikely]]
    return copysign(autocast::wide(a), autocast::wide(b));
  return record("copysign", ops::copysign(a.value(), b.value()), {a, b}, saved(a, b),
                [oa = OperandInfo(a), ob = OperandInfo(b)](Saved& s, const Incoming& dy,
                                                           const Wanted& wanted) -> Gradients {
                  const Tensor ones = ops::copysign(ops::ones_like(dy[0].value()), s.tensor(1));
                  return {wanted[0] ? oa.gradient(dy[0] * (sign(s[0]) * Variable(ones))) : Variable(),
                          wanted[1] ? ob.gradient(dy[0] * 0.0) : Variable()};
                });
}

Variable lerp(const Variable& a, const Variable& b, const Variable& weight) {
  return record("lerp", ops::lerp(a.value(), b.value(), weight.value()), {a, b, weight}, saved(a, b, weight),
                [oa = OperandInfo(a), ob = OperandInfo(b), ow = OperandInfo(weight)](
                    Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
                  return {wanted[0] ? oa.gradient(dy[0] * (1.0 - s[2])) : Variable(),
                          wanted[1] ? ob.gradient(dy[0] * s[2]) : Variable(),
                          wanted[2] ? ow.gradient(dy[0] * (s[1] - s[0])) : Variable()};
                });
}

Variable clamp(const Variable& x, const Variable& min, const Variable& max) {
  require<ValueError>(min.defined() || max.defined(), "clamp: expected at least one bound, got none");
  const Variable low = min.defined() ? maximum(x, min) : x;
  return max.defined() ? minimum(low, max) : low;
}

Variable clamp_min(const Variable& x, const Variable& min) {
  return maximum(x, min);
}

Variable clamp_max(const Variable& x, const Variable& max) {
  return minimum(x, max);
}

Tensor heaviside(const Variable& x, const Variable& values) {
  return heaviside(x.value(), values.value());
}

Tensor nextafter(const Variable& a, const Variable& b) {
  return ops::nextafter(a.value(), b.value());
}

}  // namespace tessera

#include "tensor/composed/elementwise/special.inc"
