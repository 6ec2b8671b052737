#include "autograd/functions/softmax.h"

#include "autograd/functions/reduction.h"
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
      {.name = "logsumexp",
       .family = "softmax",
       .call = [](const CaseInputs& g) { return logsumexp(g[0], g.shape("axes"), g.flag("keepdim")); }},
      {.name = "logsumexp",
       .family = "edges",
       .call = [](const CaseInputs& g) { return logsumexp(g[0], g.shape("axes"), g.flag("keepdim")); },
       .tolerance = {.f64 = 1e-8, .reason = "2^24 + log 2 is one f64 in PyTorch"},
       .twice_differentiable = false,
       .differences = false},
  };
}

}  // namespace tessera::test
