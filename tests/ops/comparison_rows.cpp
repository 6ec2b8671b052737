#include <limits>

#include "autograd/functions/ternary.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/unary.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

OpRow compare_row(const char* name, Tensor (*function)(const Tensor&, const Tensor&)) {
  return {.name = name, .family = "comparison", .call = [=](const CaseInputs& g) {
            return function(g.tensor(0), g.tensor(1));
          }};
}

OpRow test_row(const char* name, Tensor (*function)(const Tensor&)) {
  return {.name = name, .family = "comparison", .call = [=](const CaseInputs& g) {
            return function(g.tensor(0));
          }};
}

Variable clamp_as_given(const CaseInputs& g) {
  constexpr double unbounded = std::numeric_limits<double>::infinity();
  return clamp(g[0], g.has("min") ? g.real("min") : -unbounded, g.has("max") ? g.real("max") : unbounded);
}

}  // namespace

std::vector<OpRow> comparison_rows() {
  return {
      compare_row("equal", ops::equal),
      compare_row("not_equal", ops::not_equal),
      compare_row("less", ops::less),
      compare_row("less_equal", ops::less_equal),
      compare_row("greater", ops::greater),
      compare_row("greater_equal", ops::greater_equal),
      compare_row("logical_and", ops::logical_and),
      compare_row("logical_or", ops::logical_or),
      compare_row("logical_xor", ops::logical_xor),
      test_row("logical_not", ops::logical_not),
      test_row("bitwise_not", ops::bitwise_not),
      test_row("isnan", ops::isnan),
      test_row("isinf", ops::isinf),
      test_row("isfinite", ops::isfinite),
      {.name = "where",
       .family = "comparison",
       .call = [](const CaseInputs& g) { return where(g.tensor(0), g[1], g[2]); }},
      {.name = "masked_fill",
       .family = "comparison",
       .call = [](const CaseInputs& g) { return masked_fill(g[0], g.tensor(1), g.real("value")); }},
      {.name = "clamp", .family = "comparison", .call = clamp_as_given},
      {.name = "lerp",
       .family = "comparison",
       .call = [](const CaseInputs& g) { return lerp(g[0], g[1], g.real("weight")); }},
      {.name = "addcmul",
       .family = "comparison",
       .call = [](const CaseInputs& g) { return addcmul(g[0], g[1], g[2], g.real("factor")); }},
      {.name = "addcdiv",
       .family = "comparison",
       .call = [](const CaseInputs& g) { return addcdiv(g[0], g[1], g[2], g.real("factor")); }},
  };
}

}  // namespace tessera::test
