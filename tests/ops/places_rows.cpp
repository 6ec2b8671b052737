#include "autograd/functions/composed/places.h"

#include "tests/ops/table.h"

namespace tessera::test {
namespace {

OpRow row(const char* name, std::function<Results(const CaseInputs&)> call) {
  return {.name = name, .family = "places", .call = std::move(call)};
}

Results reduced(const CaseInputs& g) {
  return scatter_reduce(g[0], g.integer("dim"), g.tensor(1), g[2], g.text("reduce"), g.flag("include_self"));
}

}  // namespace

std::vector<OpRow> places_rows() {
  std::vector<OpRow> rows = {
      row("index_put",
          [](const CaseInputs& g) {
            return index_put(g[0], {g.tensor(1), g.tensor(2)}, g[3], g.flag("accumulate"));
          }),
      row("scatter_reduce", reduced),
      row("index_reduce",
          [](const CaseInputs& g) {
            return index_reduce(g[0], g.integer("dim"), g.tensor(1), g[2], g.text("reduce"),
                                g.flag("include_self"));
          }),
      row("take_along_dim",
          [](const CaseInputs& g) {
            return take_along_dim(g[0], g.tensor(1),
                                  g.has("dim") ? std::optional(g.integer("dim")) : std::nullopt);
          }),
      row("isin", [](const CaseInputs& g) { return isin(g[0], g[1], g.flag("invert")); }),
      row("searchsorted",
          [](const CaseInputs& g) { return searchsorted(g[0], g[1], g.flag("right"), g.tensor(2)); }),
      row("bucketize", [](const CaseInputs& g) { return bucketize(g[0], g[1], g.flag("right")); }),
  };
  OpRow kinks = row("scatter_reduce", reduced);
  kinks.golden = "scatter_reduce_kinks";
  kinks.except = {{"amax_0", "PyTorch divides the gradient by x's own element too, which is no operand"}};
  kinks.twice_differentiable = kinks.differences = false;
  rows.push_back(kinks);
  OpRow groups = row("unique_consecutive", [](const CaseInputs& g) { return unique_consecutive(g[0]); });
  groups.shape_from_values = true;
  rows.push_back(groups);
  rows.push_back({.name = "scatter_multiply", .tested_in = "tests/tensor/composed/places_test.cpp"});
  return rows;
}

}  // namespace tessera::test
