#include "autograd/functions/in_place.h"

#include "autograd/functions/activation.h"
#include "autograd/functions/binary.h"
#include "autograd/functions/broadcasting.h"
#include "autograd/functions/cast.h"
#include "autograd/functions/ternary.h"
#include "autograd/functions/unary.h"
#include "autograd/record.h"
#include "tensor/ops/creation.h"
#include "tensor/ops/generator.h"
#include "tensor/ops/in_place.h"

namespace tessera {
namespace {

/// Zeros like dy[0]: the gradient of values that were overwritten.
Gradients no_gradient(Saved&, const Incoming& dy, const Wanted&) {
  return {Variable(Tensor::zeros_like(dy[0].value()))};
}

/// x becomes values that do not depend on it.
template <class Change>
void overwrite(const char* name, const Variable& x, Change change) {
  record_in_place(name, x, {x}, saved(), change, no_gradient);
}

/// x becomes f(x), which is recorded. An f that saves its argument gets a copy, since x is overwritten. Where
/// nothing is recorded `change` writes x itself.
template <class Change, class Function>
void replace(const char* name, const Variable& x, bool saves_argument, Change change, Function f) {
  if (!Inputs{x}.recorded()) return record_in_place(name, x, {x}, saved(), change, no_gradient);
  detail::check_in_place(name, x, true);
  copy_(x, f(saves_argument ? clone(x) : x));
}

}  // namespace

#define TESSERA_DEFINE(name, saves_argument)                            \
  void name##_(const Variable& x) {                                     \
    replace(                                                            \
        #name "_", x, saves_argument, [&] { ops::name##_(x.value()); }, \
        [](const Variable& a) { return name(a); });                     \
  }
TESSERA_DEFINE(abs, true)
TESSERA_DEFINE(square, true)
TESSERA_DEFINE(relu, true)
TESSERA_DEFINE(log, true)
TESSERA_DEFINE(sin, true)
TESSERA_DEFINE(cos, true)
TESSERA_DEFINE(neg, false)
TESSERA_DEFINE(exp, false)
TESSERA_DEFINE(sqrt, false)
TESSERA_DEFINE(rsqrt, false)
TESSERA_DEFINE(reciprocal, false)
TESSERA_DEFINE(tanh, false)
TESSERA_DEFINE(sigmoid, false)
TESSERA_DEFINE(floor, false)
TESSERA_DEFINE(ceil, false)
TESSERA_DEFINE(round, false)
#undef TESSERA_DEFINE

void pow_(const Variable& x, const Scalar& n) {
  replace(
      "pow_", x, true, [&] { ops::pow_(x.value(), n); }, [&](const Variable& a) { return pow(a, n); });
}

void clamp_(const Variable& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  replace(
      "clamp_", x, true, [&] { ops::clamp_(x.value(), low, high); },
      [&](const Variable& a) { return clamp(a, low, high); });
}

void fill_(const Variable& x, const Scalar& n) {
  overwrite("fill_", x, [&] { ops::fill_(x.value(), n); });
}

void zero_(const Variable& x) {
  overwrite("zero_", x, [&] { ops::zero_(x.value()); });
}

void copy_(const Variable& x, const Variable& y) {
  record_in_place(
      "copy_", x, {x, y}, saved(), [&] { ops::copy_(x.value(), y.value()); },
      [oy = OperandInfo(y)](Saved&, const Incoming& dy, const Wanted& wanted) -> Gradients {
        return {wanted[0] ? Variable(Tensor::zeros_like(dy[0].value())) : Variable(),
                wanted[1] ? oy.gradient(dy[0]) : Variable()};
      });
}

void normal_(const Variable& x, double mean, double deviation) {
  overwrite("normal_", x, [&] { normal_(x.value(), mean, deviation); });
}

void uniform_(const Variable& x, double low, double high) {
  overwrite("uniform_", x, [&] { uniform_(x.value(), low, high); });
}

void bernoulli_(const Variable& x, double probability) {
  overwrite("bernoulli_", x, [&] { bernoulli_(x.value(), probability); });
}

}  // namespace tessera
