#include "autograd/functions/elementwise/binary.h"
#include "tensor/ops/elementwise/binary.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

OpRow row(const char* name, Variable (*function)(const Variable&, const Variable&)) {
  return {
      .name = name, .family = "binary", .call = [=](const CaseInputs& g) { return function(g[0], g[1]); }};
}

/// An op without a gradient.
OpRow raw_row(const char* name, Tensor (*function)(const Tensor&, const Tensor&)) {
  return {.name = name, .family = "binary", .call = [=](const CaseInputs& g) {
            return function(g.tensor(0), g.tensor(1));
          }};
}

OpRow compare_row(const char* name, Tensor (*function)(const Tensor&, const Tensor&)) {
  return {.name = name, .family = "comparison", .call = [=](const CaseInputs& g) {
            return function(g.tensor(0), g.tensor(1));
          }};
}

/// A row of cases where finite differences do not give the derivative.
OpRow edge_row(const char* name, Variable (*function)(const Variable&, const Variable&)) {
  return {.name = name,
          .family = "edges",
          .call = [=](const CaseInputs& g) { return function(g[0], g[1]); },
          .twice_differentiable = false,
          .differences = false};
}

}  // namespace

std::vector<OpRow> binary_rows() {
  return {
      row("add", add),
      row("sub", sub),
      row("mul", mul),
      row("div", div),
      {.name = "pow",
       .family = "binary",
       .call = [](const CaseInputs& g) { return pow(g[0], g[1]); },
       .tolerance = {.bf16 = 0x1p-4,
                     .f16 = 0x1p-7,
                     .reason = "the exponent's gradient sums products that cancel"}},
      row("maximum", maximum),
      row("minimum", minimum),
      edge_row("pow", pow),
      edge_row("maximum", maximum),
      edge_row("minimum", minimum),
      raw_row("floor_divide", ops::floor_divide),
      raw_row("remainder", ops::remainder),
      raw_row("bitwise_and", ops::bitwise_and),
      raw_row("bitwise_or", ops::bitwise_or),
      raw_row("bitwise_xor", ops::bitwise_xor),
      compare_row("equal", ops::equal),
      compare_row("not_equal", ops::not_equal),
      compare_row("less", ops::less),
      compare_row("less_equal", ops::less_equal),
      compare_row("greater", ops::greater),
      compare_row("greater_equal", ops::greater_equal),
      compare_row("logical_and", ops::logical_and),
      compare_row("logical_or", ops::logical_or),
      compare_row("logical_xor", ops::logical_xor),
  };
}

}  // namespace tessera::test
