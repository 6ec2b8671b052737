#include "autograd/functions/indexing/sorting.h"

#include "tests/ops/table.h"

namespace tessera::test {
namespace {

/// Values, then indices.
Results both(SortedVariable sorted) {
  return std::vector<Variable>{sorted.values, sorted.indices};
}

}  // namespace

std::vector<OpRow> sorting_rows() {
  return {
      {.name = "sort",
       .family = "indexing",
       .call = [](const CaseInputs& g) { return both(sort(g[0], g.integer("axis"), g.flag("descending"))); }},
      {.name = "topk",
       .family = "indexing",
       .call =
           [](const CaseInputs& g) {
             return both(topk(g[0], g.integer("k"), g.integer("axis"), g.flag("largest")));
           }},
      {.name = "argsort", .tested_in = "tests/tensor/ops/indexing/sorting_test.cpp"},
      {.name = "cumsum",
       .family = "reduction",
       .call = [](const CaseInputs& g) { return cumsum(g[0], g.integer("axis")); }},
  };
}

}  // namespace tessera::test
