#include "autograd/functions/layers/attention.h"

#include "tests/ops/table.h"

namespace tessera::test {
namespace {

AttentionOptions options_of(const CaseInputs& g) {
  return {.causal = g.flag("causal"), .scale = g.has("scale") ? g.real("scale") : 0.0};
}

/// Attention with dropped weights. The mask is drawn from a key, so it is the same in every call: differences
/// compare the kernels, which draw it block by block, with the composed second derivative, which draws it at
/// once.
std::vector<OpCase> dropout_cases() {
  OpCase dropped;
  dropped.name = "dropped";
  for (const OpCase& c : golden_cases("attention", "scaled_dot_product_attention"))
    if (c.name == "scale") dropped.inputs = c.inputs;
  dropped.differentiable = true;
  return {dropped};
}

}  // namespace

std::vector<OpRow> attention_rows() {
  return {
      {.name = "scaled_dot_product_attention",
       .family = "attention",
       .call =
           [](const CaseInputs& g) {
             return scaled_dot_product_attention(g[0], g[1], g[2], options_of(g), g.optional(3));
           }},
      {.name = "self_attention",
       .family = "attention",
       .call =
           [](const CaseInputs& g) {
             return self_attention(g[0], g.integer("heads"), {.causal = g.flag("causal")});
           }},
      {.name = "attention_dropout",
       .call =
           [](const CaseInputs& g) {
             return scaled_dot_product_attention(g[0], g[1], g[2],
                                                 {.causal = true, .dropout = 0.25, .key = 3});
           },
       .cases = dropout_cases},
  };
}

}  // namespace tessera::test
