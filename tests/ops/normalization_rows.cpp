#include "autograd/functions/layers/normalization.h"

#include "tests/ops/table.h"

namespace tessera::test {
namespace {

Results both(const SumAndNorm& pair) {
  return std::vector<Variable>{pair.sum, pair.normal};
}

/// The inputs of a golden case with a mask: finite differences of the forward are compared with the fused
/// backward, which draws the mask again, and with the composed second derivative.
std::vector<OpCase> masked_cases() {
  OpCase masked;
  masked.name = "masked";
  for (const OpCase& c : golden_cases("normalization", "add_layer_norm"))
    if (c.name == "no_bias") masked.inputs = c.inputs;
  masked.differentiable = true;
  return {masked};
}

constexpr DropoutMask quarter_dropped{.probability = 0.25, .key = 5};

}  // namespace

std::vector<OpRow> normalization_rows() {
  const std::map<std::string, std::string> last_axis_only = {
      {"two_axes_plain", "without a weight, whose shape gives the axes, only the last axis is normalized"}};
  return {
      {.name = "layer_norm",
       .family = "normalization",
       .call =
           [](const CaseInputs& g) { return layer_norm(g[0], g.optional(1), g.optional(2), g.real("eps")); },
       .except = last_axis_only},
      {.name = "rms_norm",
       .family = "normalization",
       .call = [](const CaseInputs& g) { return rms_norm(g[0], g.optional(1), g.real("eps")); },
       .except = last_axis_only},
      {.name = "add_layer_norm",
       .family = "normalization",
       .call =
           [](const CaseInputs& g) {
             return both(
                 add_layer_norm(g[0], g.optional(1), {}, g.optional(2), g.optional(3), g.real("eps")));
           },
       .tolerance = {.bf16 = 0x1p-5, .reason = "the norm is that of the rounded sum"}},
      {.name = "stream_layer_norm",
       .family = "normalization",
       .call =
           [](const CaseInputs& g) {
             return both(add_layer_norm(g[0], {}, {}, g.optional(1), g.optional(2), g.real("eps")));
           }},
      {.name = "add_rms_norm",
       .family = "normalization",
       .call =
           [](const CaseInputs& g) {
             return both(add_rms_norm(g[0], g.optional(1), {}, g.optional(2), g.real("eps")));
           },
       .tolerance = {.bf16 = 0x1p-5, .reason = "the norm is that of the rounded sum"}},
      {.name = "add_layer_norm_masked",
       .call =
           [](const CaseInputs& g) {
             return both(add_layer_norm(g[0], g.optional(1), quarter_dropped, g.optional(2)));
           },
       .cases = masked_cases},
      {.name = "add_dropout",
       .call = [](const CaseInputs& g) { return add_dropout(g[0], g[1], quarter_dropped); },
       .cases = masked_cases},
      {.name = "recompute_normalized", .tested_in = "tests/tensor/ops/layers/normalization_test.cpp"},
  };
}

}  // namespace tessera::test
