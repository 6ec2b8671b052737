#include <limits>

#include "autograd/functions/elementwise/ternary.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

Variable clamp_as_given(const CaseInputs& g) {
  constexpr double unbounded = std::numeric_limits<double>::infinity();
  return clamp(g[0], g.has("min") ? g.real("min") : -unbounded, g.has("max") ? g.real("max") : unbounded);
}

}  // namespace

std::vector<OpRow> ternary_rows() {
  return {
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
