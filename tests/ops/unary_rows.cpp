#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/unary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

using Function = Variable (*)(const Variable&);
using Derivative = Variable (*)(const Variable&, const Variable&);

OpRow row(const char* name, Function function, Tolerance tolerance = {}) {
  return {.name = name,
          .family = "unary",
          .call = [=](const CaseInputs& g) { return function(g[0]); },
          .tolerance = tolerance};
}

OpRow derivative_row(const char* name, Derivative function, Tolerance tolerance = {}) {
  return {.name = name,
          .family = "unary",
          .call = [=](const CaseInputs& g) { return function(g[0], g[1]); },
          .tolerance = tolerance};
}

OpRow test_row(const char* name, Tensor (*function)(const Tensor&)) {
  return {.name = name, .family = "comparison", .call = [=](const CaseInputs& g) {
            return function(g.tensor(0));
          }};
}

}  // namespace

std::vector<OpRow> unary_rows() {
  return {
      row("neg", neg),
      row("abs", abs),
      row("sign", sign),
      row("square", square),
      row("sqrt", sqrt),
      row("rsqrt", rsqrt),
      row("reciprocal", reciprocal),
      row("exp", exp),
      row("exp2", exp2),
      row("expm1", expm1),
      row("log", log),
      row("log2", log2),
      row("log10", log10),
      row("log1p", log1p),
      row("sin", sin),
      row("cos", cos),
      row("tan", tan),
      row("tanh", tanh),
      row("erf", erf),
      row("erfc", erfc),
      row("sigmoid", sigmoid,
          {.f32 = 3e-5,
           .bf16 = 0x1p-1,
           .f16 = 0x1p-4,
           .reason = "y (1 - y) cancels where the saved y is near 1"}),
      row("relu", relu),
      row("gelu", gelu),
      row("gelu_tanh", gelu_tanh),
      row("silu", silu),
      row("softplus", softplus),
      row("floor", floor),
      row("ceil", ceil),
      row("round", round),
      row("trunc", trunc),
      test_row("logical_not", ops::logical_not),
      test_row("bitwise_not", ops::bitwise_not),
      test_row("isnan", ops::isnan),
      test_row("isinf", ops::isinf),
      test_row("isfinite", ops::isfinite),
      derivative_row("relu_backward", relu_backward),
      derivative_row("gelu_backward", gelu_backward),
      derivative_row("gelu_tanh_backward", gelu_tanh_backward,
                     {.f32 = 1e-5,
                      .bf16 = 0x1p-3,
                      .f16 = 0x1p-6,
                      .reason = "in the tail the second derivative is a small difference"}),
      derivative_row("silu_backward", silu_backward),
      derivative_row("softplus_backward", softplus_backward),
      derivative_row("tanh_backward", tanh_backward),
      derivative_row("sigmoid_backward", sigmoid_backward),
  };
}

}  // namespace tessera::test
