#include "autograd/functions/linalg/distance.h"

#include <limits>

#include "autograd/functions/composed.h"
#include "tests/ops/table.h"

namespace tessera::test {

namespace {

/// -1 stands for infinity, which JSON does not have.
double norm_of(const CaseInputs& g) {
  const double p = g.real("p");
  return p < 0 ? std::numeric_limits<double>::infinity() : p;
}

}  // namespace

std::vector<OpRow> distance_rows() {
  const auto between = [](const CaseInputs& g) { return Results(cdist(g[0], g[1], norm_of(g))); };
  return {
      {.name = "cdist", .family = "distance", .call = between},
      {.name = "cdist",
       .family = "distance",
       .call = between,
       .golden = "cdist_kinks",
       .twice_differentiable = false,
       .differences = false},
      {.name = "pdist",
       .family = "distance",
       .call = [](const CaseInputs& g) { return Results(pdist(g[0], norm_of(g))); }},
      {.name = "einsum",
       .family = "einsum",
       .call =
           [](const CaseInputs& g) {
             for (size_t i = 0; i < g.inputs.size(); ++i) g.required_inputs.insert(i);
             return Results(einsum(g.text("equation"), std::span<const Variable>(g.inputs)));
           }},
  };
}

}  // namespace tessera::test
