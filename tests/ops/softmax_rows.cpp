#include "autograd/functions/layers/softmax.h"

#include "tests/ops/table.h"

namespace tessera::test {

std::vector<OpRow> softmax_rows() {
  return {
      {.name = "softmax",
       .family = "softmax",
       .call = [](const CaseInputs& g) { return softmax(g[0], g.integer("axis")); }},
      {.name = "log_softmax",
       .family = "softmax",
       .call = [](const CaseInputs& g) { return log_softmax(g[0], g.integer("axis")); },
       .tolerance = {.bf16 = 0x1p-5, .f16 = 0x1p-8, .reason = "the gradient sums a row of 301 values"}},
  };
}

}  // namespace tessera::test
