#include <doctest/doctest.h>

#include "autograd/debug/gradcheck.h"
#include "tests/ops/run_case.h"

using namespace tessera;
using namespace tessera::test;

namespace {

bool is_differentiated(const OpRow& row, const OpCase& c) {
  return row.differences && (c.differentiable || !c.grad_outputs.empty());
}

/// Numeric derivatives call the op once per element (second derivatives once per pair), so only small cases
/// are checked.
bool small_enough(const CaseInputs& in, int64_t elements) {
  int64_t sum = 0;
  for (const Variable& input : in.inputs)
    if (input.requires_grad()) sum += input.numel();
  return sum > 0 && sum <= elements;
}

/// The op as a function of its inputs alone, which returns the results that have a gradient.
CheckedFunction function_of(const OpRow& row, const OpCase& c) {
  return [&](std::span<const Variable> inputs) {
    const Results results = row.call(CaseInputs({inputs.begin(), inputs.end()}, c.arguments));
    std::vector<Variable> differentiable;
    for (size_t i = 0; i < results.size(); ++i)
      if (c.differentiable || c.grad_outputs.at(i).defined()) differentiable.push_back(results[i]);
    return differentiable;
  };
}

}  // namespace

TEST_CASE("op table: gradients are the numeric ones") {
  for_each_case([](const OpRow& row, const OpCase& c) -> std::string {
    const CaseInputs in = case_inputs(c, f64);
    if (!is_differentiated(row, c) || !small_enough(in, 64)) return "";
    const GradcheckResult result = gradcheck(function_of(row, c), in.inputs);
    return result.passed ? "" : result.message;
  });
}

TEST_CASE("op table: second derivatives are the numeric ones") {
  for_each_case([](const OpRow& row, const OpCase& c) -> std::string {
    const CaseInputs in = case_inputs(c, f64);
    if (!is_differentiated(row, c) || !row.twice_differentiable || !small_enough(in, 40)) return "";
    const GradcheckResult result = gradgradcheck(function_of(row, c), in.inputs);
    return result.passed ? "" : result.message;
  });
}
