#include "autograd/functions/softmax.h"

#include <numbers>

#include "autograd/functions/reduction.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

/// Two equal numbers of 2^24, where f32 has no digits behind the point: each has half of the gradient.
std::vector<OpCase> large_numbers() {
  return {{.name = "large",
           .arguments = Arguments(R"({"axes": [1], "keepdim": false})"),
           .inputs = {Tensor::from({0x1p24, 0x1p24}, {1, 2})},
           .outputs = {Tensor::from({0x1p24 + std::numbers::ln2})},
           .incoming = {Tensor::from({2.0})},
           .gradients = {Tensor::from({1.0, 1.0}, {1, 2})},
           .no_differences = true}};
}

}  // namespace

std::vector<OpRow> softmax_rows() {
  return {
      {.name = "softmax",
       .family = "softmax",
       .call = [](const Given& g) { return softmax(g[0], g.integer("axis")); }},
      {.name = "log_softmax",
       .family = "softmax",
       .call = [](const Given& g) { return log_softmax(g[0], g.integer("axis")); },
       .tolerance = {.bf16 = 0x1p-5, .f16 = 0x1p-8, .reason = "a row of 301 incoming gradients is summed"}},
      {.name = "logsumexp",
       .family = "softmax",
       .call = [](const Given& g) { return logsumexp(g[0], g.shape("axes"), g.flag("keepdim")); },
       .cases = large_numbers},
  };
}

}  // namespace tessera::test
