#include "autograd/functions/composed.h"
#include "autograd/functions/elementwise/activation_function.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

using Function = std::function<Variable(const CaseInputs&)>;

/// A row of values, and one of kinks, where PyTorch's derivative is a convention.
void append(std::vector<OpRow>& rows, const char* name, Function function, bool has_kinks = true,
            Tolerance tolerance = {}) {
  const auto call = [function](const CaseInputs& g) { return Results(function(g)); };
  rows.push_back({.name = name, .family = "activation_function", .call = call, .tolerance = tolerance});
  if (!has_kinks) return;
  rows.push_back({.name = name,
                  .family = "activation_function",
                  .call = call,
                  .golden = std::string(name) + "_kinks",
                  .tolerance = tolerance,
                  .twice_differentiable = false,
                  .differences = false});
}

}  // namespace

std::vector<OpRow> activation_function_rows() {
  std::vector<OpRow> rows;
  append(rows, "leaky_relu", [](const CaseInputs& g) { return leaky_relu(g[0], g.real("negative_slope")); });
  append(rows, "elu", [](const CaseInputs& g) { return elu(g[0], g.real("alpha")); });
  append(
      rows, "selu", [](const CaseInputs& g) { return selu(g[0]); }, false);
  append(rows, "celu", [](const CaseInputs& g) { return celu(g[0], g.real("alpha")); });
  append(rows, "mish", [](const CaseInputs& g) { return mish(g[0]); });
  append(rows, "hardswish", [](const CaseInputs& g) { return hardswish(g[0]); });
  append(rows, "hardsigmoid", [](const CaseInputs& g) { return hardsigmoid(g[0]); });
  append(rows, "hardtanh",
         [](const CaseInputs& g) { return hardtanh(g[0], g.real("min_val"), g.real("max_val")); });
  append(rows, "relu6", [](const CaseInputs& g) { return relu6(g[0]); });
  append(
      rows, "softplus",
      [](const CaseInputs& g) { return softplus(g[0], g.real("beta"), g.real("threshold")); }, false);
  append(rows, "softsign", [](const CaseInputs& g) { return softsign(g[0]); });
  append(rows, "softshrink", [](const CaseInputs& g) { return softshrink(g[0], g.real("lambd")); });
  append(rows, "hardshrink", [](const CaseInputs& g) { return hardshrink(g[0], g.real("lambd")); });
  append(rows, "tanhshrink", [](const CaseInputs& g) { return tanhshrink(g[0]); });
  append(rows, "threshold",
         [](const CaseInputs& g) { return threshold(g[0], g.real("threshold"), g.real("value")); });
  append(rows, "logsigmoid", [](const CaseInputs& g) { return logsigmoid(g[0]); });
  append(rows, "rrelu", [](const CaseInputs& g) { return rrelu(g[0], g.real("lower"), g.real("upper")); });
  append(
      rows, "prelu", [](const CaseInputs& g) { return prelu(g[0], g[1]); }, false);
  append(
      rows, "softmin", [](const CaseInputs& g) { return softmin(g[0], g.integer("dim")); }, false);
  for (const char* name : {"activation", "activation_backward", "sloped_relu", "gumbel_softmax"})
    rows.push_back({.name = name, .tested_in = "tests/autograd/activation_function_test.cpp"});
  return rows;
}

}  // namespace tessera::test
