#include "autograd/functions/elementwise/special_function.h"

#include "tests/ops/table.h"

namespace tessera::test {
namespace {

using Function = std::function<Variable(const CaseInputs&)>;

OpRow row(const char* name, Function function, Tolerance tolerance = {}) {
  return {.name = name,
          .family = "special_function",
          .call = [function](const CaseInputs& g) { return Results(function(g)); },
          .tolerance = tolerance};
}

/// The cases where PyTorch's derivative is a convention.
OpRow kinks(const char* name, Function function) {
  OpRow result = row(name, std::move(function));
  result.golden = std::string(name) + "_kinks";
  result.twice_differentiable = false;
  result.differences = false;
  return result;
}

}  // namespace

std::vector<OpRow> special_function_rows() {
  std::vector<OpRow> rows;
#define TESSERA_ROW(name) rows.push_back(row(#name, [](const CaseInputs& g) { return name(g[0]); }));
  TESSERA_ROW(asin)
  TESSERA_ROW(acos)
  TESSERA_ROW(atan)
  TESSERA_ROW(asinh)
  TESSERA_ROW(acosh)
  TESSERA_ROW(atanh)
  TESSERA_ROW(erfinv)
  TESSERA_ROW(lgamma)
  TESSERA_ROW(sinc)
#undef TESSERA_ROW
#define TESSERA_ROW(name) rows.push_back(row(#name, [](const CaseInputs& g) { return name(g[0], g[1]); }));
  TESSERA_ROW(atan2)
  TESSERA_ROW(hypot)
  TESSERA_ROW(copysign)
  TESSERA_ROW(xlogy)
  TESSERA_ROW(float_power)
  TESSERA_ROW(clamp_min)
  TESSERA_ROW(clamp_max)
#undef TESSERA_ROW
  // PyTorch's derivative of digamma ends its series after four terms.
  const Tolerance series{.f64 = 1e-8, .reason = "PyTorch's trigamma has a relative error of 1e-9"};
  rows.push_back(row(
      "digamma", [](const CaseInputs& g) { return digamma(g[0]); }, series));
  rows.push_back(row(
      "polygamma", [](const CaseInputs& g) { return polygamma(g.integer("n"), g[0]); }, series));
  rows.push_back(row("logit", [](const CaseInputs& g) {
    return logit(g[0], g.has("eps") ? std::optional(g.real("eps")) : std::nullopt);
  }));
  const Function limited = [](const CaseInputs& g) { return clamp(g[0], g.optional(1), g.optional(2)); };
  rows.push_back(row("clamp", limited));
  rows.push_back(kinks("clamp", limited));
  rows.push_back(row("lerp", [](const CaseInputs& g) { return lerp(g[0], g[1], g[2]); }));
  rows.push_back(kinks("atan2", [](const CaseInputs& g) { return atan2(g[0], g[1]); }));
  rows.push_back(kinks("xlogy", [](const CaseInputs& g) { return xlogy(g[0], g[1]); }));
  rows.push_back(kinks("sinc", [](const CaseInputs& g) { return sinc(g[0]); }));
  rows.push_back({.name = "heaviside", .family = "special_function", .call = [](const CaseInputs& g) {
                    return Results(heaviside(g[0], g[1]));
                  }});
  rows.push_back({.name = "nextafter",
                  .family = "special_function",
                  .call = [](const CaseInputs& g) { return Results(nextafter(g[0], g[1])); },
                  .narrow = {}});
  return rows;
}

}  // namespace tessera::test
