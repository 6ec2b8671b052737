#include "autograd/functions/arithmetic.h"

#include <limits>
#include <numbers>

#include "tensor/ops/binary.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

OpRow row(const char* name, Variable (*function)(const Variable&, const Variable&)) {
  return {.name = name, .family = "binary", .call = [=](const Given& g) { return function(g[0], g[1]); }};
}

/// An op without a gradient.
OpRow raw_row(const char* name, Tensor (*function)(const Tensor&, const Tensor&)) {
  return {.name = name, .family = "binary", .call = [=](const Given& g) {
            return function(g.tensor(0), g.tensor(1));
          }};
}

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Where differences do not tell the slopes: both operands' are given.
OpCase edge(Tensor a, Tensor b, Tensor result, Tensor incoming, Tensor da, Tensor db) {
  return {.name = "edges",
          .inputs = {std::move(a), std::move(b)},
          .outputs = {std::move(result)},
          .incoming = {std::move(incoming)},
          .gradients = {std::move(da), std::move(db)},
          .no_differences = true};
}

/// A row of its own for cases that have no golden.
OpRow edge_row(const char* name, Variable (*function)(const Variable&, const Variable&),
               const OpCase& edges) {
  return {.name = name,
          .call = [=](const Given& g) { return function(g[0], g[1]); },
          .cases = [=] { return std::vector{edges}; },
          .twice_differentiable = false};
}

/// Powers of 0, and powers 0. 0^0 is 1, with the slope 0 either way; 0^y falls for y below 0.
OpCase powers_at_zero() {
  return edge(Tensor::from({0.0, 0.0, 0.0, -0.0, nan, infinity, 4.0}),
              Tensor::from({0.0, 2.0, -1.0, 0.0, 0.0, 0.0, 0.0}),
              Tensor::from({1.0, 0.0, infinity, 1.0, 1.0, 1.0, 1.0}),
              Tensor::from({2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0}),
              Tensor::from({0.0, 0.0, -infinity, 0.0, 0.0, 0.0, 0.0}),
              Tensor::from({0.0, 0.0, -infinity, 0.0, nan, infinity, 4 * std::numbers::ln2}));
}

/// Equal operands share the gradient; beside a NaN nothing is less, and both receive it.
OpCase extremes() {
  return edge(Tensor::from({1.0, nan, 1.0, nan, infinity}), Tensor::from({1.0, 1.0, nan, nan, infinity}),
              Tensor::from({1.0, nan, nan, nan, infinity}), Tensor::from({2.0, 2.0, 2.0, 2.0, 2.0}),
              Tensor::from({1.0, 2.0, 2.0, 2.0, 1.0}), Tensor::from({1.0, 2.0, 2.0, 2.0, 1.0}));
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
       .call = [](const Given& g) { return pow(g[0], g[1]); },
       .tolerance = {.bf16 = 0x1p-4,
                     .f16 = 0x1p-7,
                     .reason = "the exponent's gradient sums products that cancel"}},
      row("maximum", maximum),
      row("minimum", minimum),
      edge_row("pow", pow, powers_at_zero()),
      edge_row("maximum", maximum, extremes()),
      edge_row("minimum", minimum, extremes()),
      raw_row("floor_divide", ops::floor_divide),
      raw_row("remainder", ops::remainder),
      raw_row("bitwise_and", ops::bitwise_and),
      raw_row("bitwise_or", ops::bitwise_or),
      raw_row("bitwise_xor", ops::bitwise_xor),
  };
}

}  // namespace tessera::test
