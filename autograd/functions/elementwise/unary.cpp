#include "autograd/functions/elementwise/unary.h"

#include <numbers>

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/record.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/unary.h"

namespace tessera {
namespace {

/// An operation that saves its input: dx = backward(x, dy).
template <class Backward>
Variable saving_input(const char* name, const Variable& x, Tensor result, Backward backward) {
  return record(name, std::move(result), {x}, saved(x),
                [backward](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  return {backward(s[0], dy[0])};
                });
}

/// An operation that saves its output: dx = backward(y, dy).
template <class Backward>
Variable saving_output(const char* name, const Variable& x, Tensor result, Backward backward) {
  return record(name, std::move(result), {x}, saved(saved_output(0)),
                [backward](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  return {backward(s[0], dy[0])};
                });
}

/// A step function: its gradient is 0.
Variable step(const char* name, const Variable& x, Tensor result) {
  return record(name, std::move(result), {x}, saved(),
                [](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {Variable(Tensor::zeros_like(dy[0].value()))};
                });
}

using V = const Variable&;
constexpr double ln2 = std::numbers::ln2, ln10 = std::numbers::ln10;
constexpr double two_over_sqrt_pi = 2 * std::numbers::inv_sqrtpi;

}  // namespace

Variable neg(V x) {
  return record("neg", ops::neg(x.value()), {x}, saved(),
                [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {neg(dy[0])}; });
}
Variable abs(V x) {
  return saving_input("abs", x, ops::abs(x.value()), [](V a, V dy) { return dy * sign(a); });
}
Variable square(V x) {
  return saving_input("square", x, ops::square(x.value()), [](V a, V dy) { return dy * a * 2.0; });
}
Variable sqrt(V x) {
  return saving_output("sqrt", x, ops::sqrt(x.value()), [](V y, V dy) { return dy / y * 0.5; });
}
Variable rsqrt(V x) {
  if (autocast::widens(x)) [[unlikely]]
    return rsqrt(autocast::wide(x));
  return saving_output("rsqrt", x, ops::rsqrt(x.value()), [](V y, V dy) { return dy * y * y * y * -0.5; });
}
Variable reciprocal(V x) {
  if (autocast::widens(x)) [[unlikely]]
    return reciprocal(autocast::wide(x));
  return saving_output("reciprocal", x, ops::reciprocal(x.value()), [](V y, V dy) { return -(dy * y * y); });
}
Variable exp(V x) {
  if (autocast::widens(x)) [[unlikely]]
    return exp(autocast::wide(x));
  return saving_output("exp", x, ops::exp(x.value()), [](V y, V dy) { return dy * y; });
}
Variable exp2(V x) {
  return saving_output("exp2", x, ops::exp2(x.value()), [](V y, V dy) { return dy * y * ln2; });
}
Variable expm1(V x) {
  if (autocast::widens(x)) [[unlikely]]
    return expm1(autocast::wide(x));
  return saving_output("expm1", x, ops::expm1(x.value()), [](V y, V dy) { return dy * (y + 1.0); });
}
Variable log(V x) {
  if (autocast::widens(x)) [[unlikely]]
    return log(autocast::wide(x));
  return saving_input("log", x, ops::log(x.value()), [](V a, V dy) { return dy / a; });
}
Variable log2(V x) {
  if (autocast::widens(x)) [[unlikely]]
    return log2(autocast::wide(x));
  return saving_input("log2", x, ops::log2(x.value()), [](V a, V dy) { return dy / (a * ln2); });
}
Variable log10(V x) {
  if (autocast::widens(x)) [[unlikely]]
    return log10(autocast::wide(x));
  return saving_input("log10", x, ops::log10(x.value()), [](V a, V dy) { return dy / (a * ln10); });
}
Variable log1p(V x) {
  if (autocast::widens(x)) [[unlikely]]
    return log1p(autocast::wide(x));
  return saving_input("log1p", x, ops::log1p(x.value()), [](V a, V dy) { return dy / (a + 1.0); });
}
Variable sin(V x) {
  return saving_input("sin", x, ops::sin(x.value()), [](V a, V dy) { return dy * cos(a); });
}
Variable cos(V x) {
  return saving_input("cos", x, ops::cos(x.value()), [](V a, V dy) { return -(dy * sin(a)); });
}
Variable tan(V x) {
  if (autocast::widens(x)) [[unlikely]]
    return tan(autocast::wide(x));
  return saving_output("tan", x, ops::tan(x.value()), [](V y, V dy) { return dy * (y * y + 1.0); });
}
Variable erf(V x) {
  return saving_input("erf", x, ops::erf(x.value()),
                      [](V a, V dy) { return dy * exp(-square(a)) * two_over_sqrt_pi; });
}
Variable erfc(V x) {
  return saving_input("erfc", x, ops::erfc(x.value()),
                      [](V a, V dy) { return dy * exp(-square(a)) * -two_over_sqrt_pi; });
}

Variable sign(V x) {
  return step("sign", x, ops::sign(x.value()));
}
Variable floor(V x) {
  return step("floor", x, ops::floor(x.value()));
}
Variable ceil(V x) {
  return step("ceil", x, ops::ceil(x.value()));
}
Variable round(V x) {
  return step("round", x, ops::round(x.value()));
}
Variable trunc(V x) {
  return step("trunc", x, ops::trunc(x.value()));
}

}  // namespace tessera
