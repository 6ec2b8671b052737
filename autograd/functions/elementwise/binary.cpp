#include "autograd/functions/elementwise/binary.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/record.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"

namespace tessera {
Variable add(const Variable& a, const Variable& b) {
  return record(
      "add", ops::add(a.value(), b.value()), {a, b}, saved(),
      [oa = OperandInfo(a), ob = OperandInfo(b)](Saved&, const Incoming& dy,
                                                 const Wanted& wanted) -> Gradients {
        return {wanted[0] ? oa.gradient(dy[0]) : Variable(), wanted[1] ? ob.gradient(dy[0]) : Variable()};
      });
}

Variable sub(const Variable& a, const Variable& b) {
  return record("sub", ops::sub(a.value(), b.value()), {a, b}, saved(),
                [oa = OperandInfo(a), ob = OperandInfo(b)](Saved&, const Incoming& dy,
                                                           const Wanted& wanted) -> Gradients {
                  return {wanted[0] ? oa.gradient(dy[0]) : Variable(),
                          wanted[1] ? ob.gradient(neg(dy[0])) : Variable()};
                });
}

Variable mul(const Variable& a, const Variable& b) {
  return record("mul", ops::mul(a.value(), b.value()), {a, b},
                saved(saved_if(b.requires_grad(), a), saved_if(a.requires_grad(), b)),
                [oa = OperandInfo(a), ob = OperandInfo(b)](Saved& s, const Incoming& dy,
                                                           const Wanted& wanted) -> Gradients {
                  return {wanted[0] ? oa.gradient(mul(dy[0], s[1])) : Variable(),
                          wanted[1] ? ob.gradient(mul(dy[0], s[0])) : Variable()};
                });
}

Variable remainder(const Variable& a, const Variable& b) {
  return record(
      "remainder", ops::remainder(a.value(), b.value()), {a, b},
      saved(saved_if(b.requires_grad(), a), saved_if(b.requires_grad(), b)),
      [oa = OperandInfo(a), ob = OperandInfo(b)](Saved& s, const Incoming& dy,
                                                 const Wanted& wanted) -> Gradients {
        return {wanted[0] ? oa.gradient(dy[0]) : Variable(),
                wanted[1] ? ob.gradient(neg(dy[0] * Variable(ops::floor_divide(s.tensor(0), s.tensor(1)))))
                          : Variable()};
      });
}

Variable remainder(const Variable& x, const Scalar& scalar) {
  return record("remainder", ops::remainder(x.value(), scalar), {x}, saved(),
                [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0]}; });
}

Variable operator%(const Variable& a, const Variable& b) {
  return remainder(a, b);
}

Variable operator%(const Variable& x, const Scalar& scalar) {
  return remainder(x, scalar);
}

Variable div(const Variable& a, const Variable& b) {
  const SavedItem quotient = b.requires_grad() ? SavedItem(saved_output(0)) : SavedItem();
  return record("div", ops::div(a.value(), b.value()), {a, b}, saved(b, quotient),
                [oa = OperandInfo(a), ob = OperandInfo(b)](Saved& s, const Incoming& dy,
                                                           const Wanted& wanted) -> Gradients {
                  const Variable da = div(dy[0], s[0]);
                  return {wanted[0] ? oa.gradient(da) : Variable(),
                          wanted[1] ? ob.gradient(neg(mul(da, s[1]))) : Variable()};
                });
}

namespace {

/// y - 1, but 0 where y is 0 and x is 0 or NaN: x^0 is 1 for every x, so its derivative 0 x^-1 is 0 there
/// too.
Variable exponent_minus_one(const Variable& x, const Variable& y) {
  const Tensor is_constant = ops::logical_and(ops::equal(y.value(), Scalar(0)),
                                              ops::logical_not(ops::greater(ops::abs(x.value()), Scalar(0))));
  const Variable zero = ops::zeros({}, y.dtype(), y.device());
  return where(is_constant, zero, y - 1);
}

/// log x, but 0 where x is 0 and y at least 0: 0^y is 0 for every y above 0.
Variable log_of_base(const Variable& x, const Variable& y) {
  const Tensor is_constant =
      ops::logical_and(ops::equal(x.value(), Scalar(0)), ops::greater_equal(y.value(), Scalar(0)));
  const Variable one = ops::ones({}, x.dtype(), x.device());
  return log(where(is_constant, one, x));
}

}  // namespace

Variable pow(const Variable& a, const Variable& b) {
  if (autocast::widens(a, b)) [[unlikely]]
    return pow(autocast::wide(a), autocast::wide(b));
  return record("pow", ops::pow(a.value(), b.value()), {a, b}, saved(a, b),
                [oa = OperandInfo(a), ob = OperandInfo(b)](Saved& s, const Incoming& dy,
                                                           const Wanted& wanted) -> Gradients {
                  Gradients gradients(2);
                  const Variable x = s[0], y = s[1];
                  if (wanted[0]) gradients[0] = oa.gradient(dy[0] * y * pow(x, exponent_minus_one(x, y)));
                  if (wanted[1]) gradients[1] = ob.gradient(dy[0] * pow(x, y) * log_of_base(x, y));
                  return gradients;
                });
}

namespace {

/// The gradient of one operand: 0 where the `other` one is the result, half where they are `equal`. A NaN
/// compares false, so both get all of it there, as in PyTorch.
Variable gradient_share(const Variable& dy, const Tensor& other, const Tensor& equal) {
  const Variable zeros = Tensor::zeros_like(dy.value());
  return where(equal, dy * 0.5, where(other, zeros, dy));
}

Variable extremum(const char* name, const Variable& a, const Variable& b, Tensor result, bool largest) {
  return record(name, std::move(result), {a, b}, saved(a, b),
                [=, oa = OperandInfo(a), ob = OperandInfo(b)](Saved& s, const Incoming& dy,
                                                              const Wanted& wanted) -> Gradients {
                  const Tensor x = s.tensor(0), y = s.tensor(1);
                  const Tensor equal = ops::equal(x, y);
                  const Tensor y_taken = largest ? ops::less(x, y) : ops::greater(x, y);
                  const Tensor x_taken = largest ? ops::less(y, x) : ops::greater(y, x);
                  return {wanted[0] ? oa.gradient(gradient_share(dy[0], y_taken, equal)) : Variable(),
                          wanted[1] ? ob.gradient(gradient_share(dy[0], x_taken, equal)) : Variable()};
                });
}

}  // namespace

Variable maximum(const Variable& a, const Variable& b) {
  return extremum("maximum", a, b, ops::maximum(a.value(), b.value()), true);
}

Variable minimum(const Variable& a, const Variable& b) {
  return extremum("minimum", a, b, ops::minimum(a.value(), b.value()), false);
}

Variable maximum(const Variable& x, const Scalar& scalar) {
  Tensor result = ops::maximum(x.value(), scalar);  // throws before the constant is made
  const Variable constant(ops::full({}, scalar, x.dtype(), x.device()));
  return extremum("maximum", x, constant, std::move(result), true);
}

Variable maximum(const Scalar& scalar, const Variable& x) {
  return maximum(x, scalar);
}

Variable minimum(const Variable& x, const Scalar& scalar) {
  Tensor result = ops::minimum(x.value(), scalar);
  const Variable constant(ops::full({}, scalar, x.dtype(), x.device()));
  return extremum("minimum", x, constant, std::move(result), false);
}

Variable minimum(const Scalar& scalar, const Variable& x) {
  return minimum(x, scalar);
}

Variable add(const Variable& x, const Scalar& scalar) {
  return record("add", ops::add(x.value(), scalar), {x}, saved(),
                [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0]}; });
}

Variable mul(const Variable& x, const Scalar& scalar) {
  return record(
      "mul", ops::mul(x.value(), scalar), {x}, saved(),
      [scalar](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {mul(dy[0], scalar)}; });
}

Variable pow(const Variable& x, const Scalar& scalar) {
  if (autocast::widens(x)) [[unlikely]]
    return pow(autocast::wide(x), scalar);
  return record("pow", ops::pow(x.value(), scalar), {x}, saved(x),
                [n = scalar.real()](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  if (n == 0) return {Variable(Tensor::zeros_like(dy[0].value()))};
                  return {dy[0] * n * pow(s[0], n - 1)};
                });
}

Variable pow(const Scalar& scalar, const Variable& x) {
  if (autocast::widens(x)) [[unlikely]]
    return pow(scalar, autocast::wide(x));
  return record("pow", ops::pow(scalar, x.value()), {x}, saved(x),
                [scalar](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  const Variable y = s[0];
                  const Variable base(ops::full({}, scalar, y.dtype(), y.device()));
                  return {dy[0] * pow(base, y) * log_of_base(base, y)};
                });
}

Variable sub(const Scalar& scalar, const Variable& x) {
  return record("sub", ops::sub(scalar, x.value()), {x}, saved(),
                [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {neg(dy[0])}; });
}

Variable div(const Scalar& scalar, const Variable& x) {
  return record("div", ops::div(scalar, x.value()), {x}, saved(x),
                [n = scalar.real()](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  const Variable reciprocal = div(Scalar(1.0), s[0]);
                  return {dy[0] * (-n) * reciprocal * reciprocal};
                });
}

Variable add(const Scalar& scalar, const Variable& x) {
  return add(x, scalar);
}

Variable mul(const Scalar& scalar, const Variable& x) {
  return mul(x, scalar);
}

Variable sub(const Variable& x, const Scalar& n) {
  return record("sub", ops::sub(x.value(), n), {x}, saved(),
                [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0]}; });
}

Variable operator-(const Variable& x, const Scalar& n) {
  return sub(x, n);
}

Variable operator/(const Variable& x, const Scalar& n) {
  return div(x, n);
}

Variable div(const Variable& x, const Scalar& n) {
  return record("div", ops::div(x.value(), n), {x}, saved(),
                [n](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0] / n}; });
}

}  // namespace tessera
