#include "autograd/functions/layers/attention.h"

#include "autograd/functions/layers/gated.h"
#include "autograd/functions/layers/rotary.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

AttentionOptions options_of(const CaseInputs& g) {
  return {.causal = g.flag("causal"), .scale = g.has("scale") ? g.real("scale") : 0.0};
}

/// Grouped heads, windows, ALiBi and first positions.
AttentionOptions variant_of(const CaseInputs& g) {
  AttentionOptions options{.causal = g.flag("causal"), .enable_gqa = true};
  if (g.integer("window") > 0) options.window = g.integer("window");
  options.alibi_slopes = g.reals("slopes");
  options.first_positions = g.integers("first_positions");
  return options;
}

Gate gate_of(const CaseInputs& g) {
  for (const Gate f : {Gate::sigmoid, Gate::silu, Gate::gelu, Gate::gelu_tanh})
    if (g.text("f") == to_string(f)) return f;
  return Gate::relu;
}

RotaryOptions rotary_of(const CaseInputs& g) {
  return {.base = g.real("base"),
          .dims = g.integer("dims"),
          .interleaved = g.flag("interleaved"),
          .first_positions = g.integers("first_positions")};
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
  const Tolerance few_keys{.f32 = 2e-5,
                           .bf16 = 0x1p-4,
                           .f16 = 0x1p-7,
                           .reason = "all gradients are small where a row of few weights sums to 1"};
  return {
      {.name = "scaled_dot_product_attention",
       .family = "attention",
       .call =
           [](const CaseInputs& g) {
             return scaled_dot_product_attention(g[0], g[1], g[2], options_of(g), g.optional(3));
           }},
      {.name = "scaled_dot_product_attention",
       .family = "attention",
       .call =
           [](const CaseInputs& g) { return scaled_dot_product_attention(g[0], g[1], g[2], variant_of(g)); },
       .golden = "attention_variants"},
      {.name = "scaled_dot_product_attention",
       .family = "attention",
       .call =
           [](const CaseInputs& g) { return scaled_dot_product_attention(g[0], g[1], g[2], variant_of(g)); },
       .golden = "small_attention",
       .tolerance = few_keys},
      {.name = "attention_weights",
       .family = "attention",
       .call = [](const CaseInputs& g) { return attention_weights(g[0], g[1], variant_of(g)); }},
      {.name = "attention_weights",
       .family = "attention",
       .call = [](const CaseInputs& g) { return attention_weights(g[0], g[1], variant_of(g)); },
       .golden = "small_attention_weights",
       .tolerance = few_keys},
      {.name = "self_attention",
       .family = "attention",
       .call =
           [](const CaseInputs& g) {
             return self_attention(g[0], g.integer("heads"), {.causal = g.flag("causal")}, {},
                                   g.integer("kv_heads"));
           },
       .golden = "grouped_self_attention"},
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
      {.name = "gated",
       .family = "gated",
       .call = [](const CaseInputs& g) { return gated(gate_of(g), g[0], g[1]); }},
      {.name = "swiglu", .family = "gated", .call = [](const CaseInputs& g) { return swiglu(g[0], g[1]); }},
      {.name = "geglu", .family = "gated", .call = [](const CaseInputs& g) { return geglu(g[0], g[1]); }},
      {.name = "glu",
       .family = "gated",
       .call = [](const CaseInputs& g) { return glu(g[0], g.integer("dim")); }},
      {.name = "rotary",
       .family = "rotary",
       .call = [](const CaseInputs& g) { return rotary(g[0], rotary_of(g)); }},
  };
}

}  // namespace tessera::test
