#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/record.h"
#include "tensor/ops/elementwise/binary.h"

namespace tessera {

void add_(const Variable& x, const Variable& y) {
  record_in_place(
      "add_", x, {x, y}, saved(), [&] { ops::add_(x.value(), y.value()); },
      [oy = OperandInfo(y)](Saved&, const Incoming& dy, const Wanted& wanted) -> Gradients {
        return {dy[0], wanted[1] ? oy.gradient(dy[0]) : Variable()};
      });
}

void sub_(const Variable& x, const Variable& y) {
  record_in_place(
      "sub_", x, {x, y}, saved(), [&] { ops::sub_(x.value(), y.value()); },
      [oy = OperandInfo(y)](Saved&, const Incoming& dy, const Wanted& wanted) -> Gradients {
        return {dy[0], wanted[1] ? oy.gradient(neg(dy[0])) : Variable()};
      });
}

void mul_(const Variable& x, const Variable& y) {
  const bool recorded = Inputs{x, y}.recorded();
  // Clones of what the change overwrites: x, and y if they share memory.
  const Variable before = recorded && y.requires_grad() ? clone(x) : Variable();
  const bool y_changes = recorded && x.requires_grad() && y.value().shares_storage(x.value());
  const SavedItem factor = saved_if(x.requires_grad(), y_changes ? clone(y) : y);
  record_in_place(
      "mul_", x, {x, y}, saved(before, factor), [&] { ops::mul_(x.value(), y.value()); },
      [ox = OperandInfo(x), oy = OperandInfo(y)](Saved& s, const Incoming& dy,
                                                 const Wanted& wanted) -> Gradients {
        return {wanted[0] ? ox.gradient(mul(dy[0], s[1])) : Variable(),
                wanted[1] ? oy.gradient(mul(dy[0], s[0])) : Variable()};
      });
}

void mul_(const Variable& x, const Scalar& scalar) {
  record_in_place(
      "mul_", x, {x}, saved(), [&] { ops::mul_(x.value(), scalar); },
      [scalar](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {mul(dy[0], scalar)}; });
}

void add_(const Variable& x, const Scalar& scalar) {
  record_in_place(
      "add_", x, {x}, saved(), [&] { ops::add_(x.value(), scalar); },
      [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0]}; });
}

void sub_(const Variable& x, const Scalar& scalar) {
  record_in_place(
      "sub_", x, {x}, saved(), [&] { ops::sub_(x.value(), scalar); },
      [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0]}; });
}

void div_(const Variable& x, const Variable& y) {
  const bool recorded = Inputs{x, y}.recorded();
  const Variable before = recorded && y.requires_grad() ? clone(x) : Variable();
  const bool y_changes = recorded && y.value().shares_storage(x.value());
  record_in_place(
      "div_", x, {x, y}, saved(before, y_changes ? clone(y) : y), [&] { ops::div_(x.value(), y.value()); },
      [ox = OperandInfo(x), oy = OperandInfo(y)](Saved& s, const Incoming& dy,
                                                 const Wanted& wanted) -> Gradients {
        const Variable dx = div(dy[0], s[1]);
        return {wanted[0] ? ox.gradient(dx) : Variable(),
                wanted[1] ? oy.gradient(neg(div(mul(dx, s[0]), s[1]))) : Variable()};
      });
}

void div_(const Variable& x, const Scalar& scalar) {
  record_in_place(
      "div_", x, {x}, saved(), [&] { ops::div_(x.value(), scalar); },
      [scalar](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0] / scalar}; });
}

#define TESSERA_DEFINE(symbol, name)                                      \
  const Variable& operator symbol(const Variable& x, const Variable& y) { \
    name(x, y);                                                           \
    return x;                                                             \
  }                                                                       \
  const Variable& operator symbol(const Variable& x, const Scalar& n) {   \
    name(x, n);                                                           \
    return x;                                                             \
  }
TESSERA_DEFINE(+=, add_)
TESSERA_DEFINE(-=, sub_)
TESSERA_DEFINE(*=, mul_)
TESSERA_DEFINE(/=, div_)
#undef TESSERA_DEFINE

}  // namespace tessera
