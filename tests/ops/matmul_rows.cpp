#include "autograd/functions/layers/activation_linear.h"
#include "autograd/functions/layers/bilinear.h"
#include "autograd/functions/matmul.h"

#include "autograd/functions/view.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

Activation activation_named(const std::string& name) {
  for (Activation f : {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu})
    if (to_string(f) == name) return f;
  throw ValueError(text("no activation is called '", name, "'"));
}

}  // namespace

std::vector<OpRow> matmul_rows() {
  return {
      {.name = "matmul",
       .family = "matmul",
       .call =
           [](const CaseInputs& g) {
             const auto operand = [&](size_t i, const char* flag) {
               return g.flag(flag) ? transpose(g[i], -1, -2) : g[i];
             };
             return matmul(operand(0, "transpose_a"), operand(1, "transpose_b"));
           }},
      {.name = "linear",
       .family = "matmul",
       .call = [](const CaseInputs& g) { return linear(g[0], g[1], g.optional(2)); }},
      {.name = "activation_linear",
       .family = "matmul",
       .call =
           [](const CaseInputs& g) {
             return activation_linear(activation_named(g.text("activation")), g[0], g[1], g.optional(2));
           }},
      {.name = "bilinear",
       .family = "matmul",
       .call = [](const CaseInputs& g) { return bilinear(g[0], g[1], g[2], g.optional(3)); },
       .tolerance = {.bf16 = 0x1p-5,
                     .f16 = 0x1p-8,
                     .reason = "the first product is rounded before the second"}},
      {.name = "activation", .tested_in = "tests/tensor/ops/layers/activation_linear_test.cpp"},
      {.name = "quantized_linear", .tested_in = "tests/tensor/ops/layers/quantized_linear_test.cpp"},
      {.name = "quantized_linear_out", .tested_in = "tests/tensor/ops/layers/quantized_linear_test.cpp"},
      {.name = "quantized_linear_cross_entropy",
       .tested_in = "tests/tensor/ops/layers/quantized_linear_test.cpp"},
      {.name = "dequantize_rows", .tested_in = "tests/tensor/ops/layers/quantized_linear_test.cpp"},
  };
}

}  // namespace tessera::test
