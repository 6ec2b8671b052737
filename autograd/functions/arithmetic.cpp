#include "autograd/functions/arithmetic.h"

#include "autograd/functions/broadcasting.h"
#include "autograd/functions/unary.h"
#include "autograd/functions/where.h"
#include "autograd/record.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/creation.h"
#include "tensor/ops/unary.h"

namespace tessera {
Variable add(const Variable& a, const Variable& b) {
  return record(
      "add", ops::add(a.value(), b.value()), {a, b}, saved(),
      [oa = OperandForm(a), ob = OperandForm(b)](Saved&, const Incoming& dy,
                                                 const Wanted& wanted) -> Gradients {
        return {wanted[0] ? oa.gradient(dy[0]) : Variable(), wanted[1] ? ob.gradient(dy[0]) : Variable()};
      });
}

Variable sub(const Variable& a, const Variable& b) {
  return record("sub", ops::sub(a.value(), b.value()), {a, b}, saved(),
                [oa = OperandForm(a), ob = OperandForm(b)](Saved&, const Incoming& dy,
                                                           const Wanted& wanted) -> Gradients {
                  return {wanted[0] ? oa.gradient(dy[0]) : Variable(),
                          wanted[1] ? ob.gradient(neg(dy[0])) : Variable()};
                });
}

Variable mul(const Variable& a, const Variable& b) {
  return record("mul", ops::mul(a.value(), b.value()), {a, b},
                saved(saved_if(b.requires_grad(), a), saved_if(a.requires_grad(), b)),
                [oa = OperandForm(a), ob = OperandForm(b)](Saved& s, const Incoming& dy,
                                                           const Wanted& wanted) -> Gradients {
                  return {wanted[0] ? oa.gradient(mul(dy[0], s[1])) : Variable(),
                          wanted[1] ? ob.gradient(mul(dy[0], s[0])) : Variable()};
                });
}

Variable div(const Variable& a, const Variable& b) {
  const SavedItem quotient = b.requires_grad() ? SavedItem(saved_output(0)) : SavedItem();
  return record("div", ops::div(a.value(), b.value()), {a, b}, saved(b, quotient),
                [oa = OperandForm(a), ob = OperandForm(b)](Saved& s, const Incoming& dy,
                                                           const Wanted& wanted) -> Gradients {
                  const Variable da = div(dy[0], s[0]);
                  return {wanted[0] ? oa.gradient(da) : Variable(),
                          wanted[1] ? ob.gradient(neg(mul(da, s[1]))) : Variable()};
                });
}

namespace {

/// y - 1, but 0 where y is 0 and x is 0 or NaN: x^0 is 1 for every x, so that its slope 0 x^-1 is 0 there
/// too.
Variable lowered(const Variable& x, const Variable& y) {
  const Tensor still = ops::logical_and(ops::equal(y.value(), Scalar(0)),
                                        ops::logical_not(ops::greater(ops::abs(x.value()), Scalar(0))));
  const Variable zero = ops::zeros({}, y.dtype(), y.device());
  return where(still, zero, y - 1);
}

/// log x, but 0 where x is 0 and y at least 0: 0^y is 0 for every y above 0.
Variable log_of_base(const Variable& x, const Variable& y) {
  const Tensor still =
      ops::logical_and(ops::equal(x.value(), Scalar(0)), ops::greater_equal(y.value(), Scalar(0)));
  const Variable one = ops::ones({}, x.dtype(), x.device());
  return log(where(still, one, x));
}

}  // namespace

Variable pow(const Variable& a, const Variable& b) {
  return record("pow", ops::pow(a.value(), b.value()), {a, b}, saved(a, b),
                [oa = OperandForm(a), ob = OperandForm(b)](Saved& s, const Incoming& dy,
                                                           const Wanted& wanted) -> Gradients {
                  Gradients gradients(2);
                  const Variable x = s[0], y = s[1];
                  if (wanted[0]) gradients[0] = oa.gradient(dy[0] * y * pow(x, lowered(x, y)));
                  if (wanted[1]) gradients[1] = ob.gradient(dy[0] * pow(x, y) * log_of_base(x, y));
                  return gradients;
                });
}

namespace {

/// The gradient for an operand: none where it has `lost`, half where the operands are `equal`. Beside a NaN
/// nothing is less, and both receive all of it, as PyTorch has it.
Variable share(const Variable& dy, const Tensor& lost, const Tensor& equal) {
  const Variable none = Tensor::zeros_like(dy.value());
  return where(equal, dy * 0.5, where(lost, none, dy));
}

Variable extremum(const char* name, const Variable& a, const Variable& b, Tensor result, bool largest) {
  return record(name, std::move(result), {a, b}, saved(a, b),
                [=, oa = OperandForm(a), ob = OperandForm(b)](Saved& s, const Incoming& dy,
                                                              const Wanted& wanted) -> Gradients {
                  const Tensor x = s.tensor(0), y = s.tensor(1);
                  const Tensor equal = ops::equal(x, y);
                  const Tensor first = largest ? ops::less(x, y) : ops::greater(x, y);
                  const Tensor second = largest ? ops::less(y, x) : ops::greater(y, x);
                  return {wanted[0] ? oa.gradient(share(dy[0], first, equal)) : Variable(),
                          wanted[1] ? ob.gradient(share(dy[0], second, equal)) : Variable()};
                });
}

}  // namespace

Variable maximum(const Variable& a, const Variable& b) {
  return extremum("maximum", a, b, ops::maximum(a.value(), b.value()), true);
}

Variable minimum(const Variable& a, const Variable& b) {
  return extremum("minimum", a, b, ops::minimum(a.value(), b.value()), false);
}

Variable neg(const Variable& x) {
  return record("neg", ops::neg(x.value()), {x}, saved(),
                [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {neg(dy[0])}; });
}

Variable add(const Variable& x, const Scalar& number) {
  return record("add", ops::add(x.value(), number), {x}, saved(),
                [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0]}; });
}

Variable mul(const Variable& x, const Scalar& number) {
  return record(
      "mul", ops::mul(x.value(), number), {x}, saved(),
      [number](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {mul(dy[0], number)}; });
}

Variable pow(const Variable& x, const Scalar& number) {
  return record("pow", ops::pow(x.value(), number), {x}, saved(x),
                [n = number.real()](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  if (n == 0) return {Variable(Tensor::zeros_like(dy[0].value()))};
                  return {dy[0] * n * pow(s[0], n - 1)};
                });
}

Variable sub(const Scalar& number, const Variable& x) {
  return record("sub", ops::sub(number, x.value()), {x}, saved(),
                [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {neg(dy[0])}; });
}

Variable div(const Scalar& number, const Variable& x) {
  return record("div", ops::div(number, x.value()), {x}, saved(x),
                [n = number.real()](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  const Variable reciprocal = div(Scalar(1.0), s[0]);
                  return {dy[0] * (-n) * reciprocal * reciprocal};
                });
}

Variable operator-(const Variable& x, const Scalar& n) {
  return record("sub", ops::sub(x.value(), n), {x}, saved(),
                [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0]}; });
}

Variable operator/(const Variable& x, const Scalar& n) {
  return record("div", ops::div(x.value(), n), {x}, saved(),
                [n](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0] / n}; });
}

namespace {

/// The numbers of x as they are now, with its history.
Variable clone(const Variable& x) {
  return record("clone", x.value().clone(), {x}, saved(),
                [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0]}; });
}

}  // namespace

void add_(const Variable& x, const Variable& y) {
  record_in_place(
      "add_", x, {x, y}, saved(), [&] { ops::add_(x.value(), y.value()); },
      [oy = OperandForm(y)](Saved&, const Incoming& dy, const Wanted& wanted) -> Gradients {
        return {dy[0], wanted[1] ? oy.gradient(dy[0]) : Variable()};
      });
}

void sub_(const Variable& x, const Variable& y) {
  record_in_place(
      "sub_", x, {x, y}, saved(), [&] { ops::sub_(x.value(), y.value()); },
      [oy = OperandForm(y)](Saved&, const Incoming& dy, const Wanted& wanted) -> Gradients {
        return {dy[0], wanted[1] ? oy.gradient(neg(dy[0])) : Variable()};
      });
}

void mul_(const Variable& x, const Variable& y) {
  const bool recorded = Inputs{x, y}.recorded();
  // Clones of what the change overwrites: x, and y where they share memory.
  const Variable before = recorded && y.requires_grad() ? clone(x) : Variable();
  const bool y_changes = recorded && x.requires_grad() && y.value().shares_storage(x.value());
  const SavedItem factor = saved_if(x.requires_grad(), y_changes ? clone(y) : y);
  record_in_place(
      "mul_", x, {x, y}, saved(before, factor), [&] { ops::mul_(x.value(), y.value()); },
      [ox = OperandForm(x), oy = OperandForm(y)](Saved& s, const Incoming& dy,
                                                 const Wanted& wanted) -> Gradients {
        return {wanted[0] ? ox.gradient(mul(dy[0], s[1])) : Variable(),
                wanted[1] ? oy.gradient(mul(dy[0], s[0])) : Variable()};
      });
}

void mul_(const Variable& x, const Scalar& number) {
  record_in_place(
      "mul_", x, {x}, saved(), [&] { ops::mul_(x.value(), number); },
      [number](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {mul(dy[0], number)}; });
}

}  // namespace tessera
