#include "autograd/functions/layers/weight_norm.h"

#include "tests/ops/table.h"

namespace tessera::test {

std::vector<OpRow> weight_norm_rows() {
  const Tolerance composed{
      .bf16 = 0x1p-4, .f16 = 0x1p-7, .reason = "made of functions that round one by one"};
  return {
      {.name = "weight_norm",
       .family = "weight_norm",
       .call =
           [](const CaseInputs& g) {
             return weight_norm(g[0], g[1], g.has("dim") ? std::optional(g.integer("dim")) : std::nullopt);
           },
       .tolerance = composed},
      {.name = "spectral_norm",
       .family = "weight_norm",
       .call =
           [](const CaseInputs& g) {
             return spectral_norm(g[0], g.tensor(1), g.tensor(2), 0, 1e-12,
                                  g.has("dim") ? g.integer("dim") : 0);
           },
       .tolerance = composed},
  };
}

}  // namespace tessera::test
