#include "autograd/functions/indexing/indexing.h"

#include "autograd/functions/indexing/advanced_indexing.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/indexing/advanced_indexing.h"
#include "tensor/ops/indexing/indexing.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

/// index_add along dimension 0, with an index that repeats. It has no golden; its gradients are compared with
/// finite differences.
std::vector<OpCase> index_add_cases() {
  OpCase repeated;
  repeated.name = "repeated";
  repeated.inputs = {Tensor::from<double>({1, 2, 3, 4, 5, 6}, {3, 2}), Tensor::from<int64_t>({2, 0, 2}),
                     Tensor::from<double>({0.5, -1, 2, 0.25, -3, 1.5}, {3, 2})};
  repeated.outputs = {Tensor::from<double>({3, 2.25, 3, 4, 2.5, 6.5}, {3, 2})};
  repeated.differentiable = true;
  return {repeated};
}

/// The golden's inputs with a mask, which is the same in every call; compared with finite differences.
std::vector<OpCase> masked_embedding_cases() {
  OpCase masked;
  masked.name = "masked";
  masked.inputs = golden_cases("indexing", "embedding_add").front().inputs;
  masked.differentiable = true;
  return {masked};
}

}  // namespace

std::vector<OpRow> indexing_rows() {
  return {
      {.name = "embedding",
       .family = "indexing",
       .call = [](const CaseInputs& g) { return embedding(g.tensor(1), g[0]); }},
      {.name = "embedding_add",
       .family = "indexing",
       .call = [](const CaseInputs& g) { return embedding_add(g.tensor(2), g[0], g[1]); }},
      {.name = "embedding_add_masked",
       .call =
           [](const CaseInputs& g) {
             return embedding_add(g.tensor(2), g[0], g[1], {.probability = 0.25, .key = 5});
           },
       .cases = masked_embedding_cases},
      {.name = "index_select",
       .family = "indexing",
       .call = [](const CaseInputs& g) { return index_select(g[0], g.integer("axis"), g.tensor(1)); }},
      {.name = "index_add",
       .call = [](const CaseInputs& g) { return index_add(g[0], 0, g.tensor(1), g[2]); },
       .cases = index_add_cases},
      {.name = "gather",
       .family = "indexing",
       .call = [](const CaseInputs& g) { return gather(g[0], g.integer("axis"), g.tensor(1)); }},
      {.name = "scatter",
       .family = "indexing",
       .call = [](const CaseInputs& g) { return scatter(g[0], g.integer("axis"), g.tensor(1), g[2]); }},
      {.name = "scatter_add",
       .family = "indexing",
       .call = [](const CaseInputs& g) { return scatter_add(g[0], g.integer("axis"), g.tensor(1), g[2]); }},
      {.name = "take_along",
       .family = "indexing",
       .call = [](const CaseInputs& g) { return take_along(g[0], g.tensor(1), g.integer("axis")); }},
      {.name = "masked_select",
       .family = "indexing",
       .call = [](const CaseInputs& g) { return masked_select(g[0], g.tensor(1)); },
       .shape_from_values = true},
      {.name = "masked_scatter",
       .family = "indexing",
       .call = [](const CaseInputs& g) { return masked_scatter(g[0], g.tensor(1), g[2]); }},
      {.name = "take",
       .family = "indexing",
       .call = [](const CaseInputs& g) { return take(g[0], g.tensor(1)); }},
      {.name = "index_copy",
       .family = "indexing",
       .call = [](const CaseInputs& g) { return index_copy(g[0], g.integer("axis"), g.tensor(1), g[2]); }},
      {.name = "nonzero",
       .family = "indexing",
       .call = [](const CaseInputs& g) { return ops::nonzero(g.tensor(0)); },
       .shape_from_values = true},
      // What index and index_put_ are made of.
      {.name = "true_elements", .tested_in = "tests/autograd/index_goldens_test.cpp"},
      {.name = "read_elements", .tested_in = "tests/autograd/index_goldens_test.cpp"},
      {.name = "place_elements", .tested_in = "tests/autograd/index_goldens_test.cpp"},
      {.name = "clear_elements", .tested_in = "tests/autograd/index_goldens_test.cpp"},
      {.name = "replace_elements", .tested_in = "tests/autograd/index_goldens_test.cpp"},
      {.name = "one_hot",
       .family = "indexing",
       .call = [](const CaseInputs& g) { return ops::one_hot(g.tensor(0), g.integer("classes")); }},
  };
}

}  // namespace tessera::test
