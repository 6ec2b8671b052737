#include "tests/ops/run_case.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/ops/compare.h"

namespace tessera::test {

void for_each_case(const std::function<std::string(const OpRow&, const OpCase&)>& check) {
  const char* chosen = std::getenv("TESSERA_OP");
  for (const OpRow& row : op_table()) {
    if (!row.call || (chosen && row.name != chosen)) continue;
    for (const OpCase& c : cases_of(row)) {
      std::string problem;
      try {
        problem = check(row, c);
      } catch (const std::exception& error) {
        problem = std::string("threw: ") + error.what();
      }
      CHECK_MESSAGE(problem.empty(), row.name, "/", c.name, ": ", problem);
    }
  }
}

CaseInputs case_inputs(const OpCase& c, DType dtype, Tensor (*layout)(const Tensor&)) {
  std::vector<Variable> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    Tensor value = is_floating(c.inputs[i].dtype()) ? as_dtype(c.inputs[i], dtype) : c.inputs[i];
    if (layout) value = layout(value);
    const bool is_leaf =
        c.differentiable ? is_floating(value.dtype()) : i < c.gradients.size() && c.gradients[i].defined();
    inputs.push_back(is_leaf ? Variable::leaf(value) : Variable(value));
  }
  return CaseInputs(std::move(inputs), c.arguments);
}

double tolerance_of(const OpRow& row, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return row.tolerance.f32;
    case DType::bf16:
      return row.tolerance.bf16;
    case DType::f16:
      return row.tolerance.f16;
    default:
      return row.tolerance.f64;
  }
}

std::vector<Tensor> gradients_of(const CaseInputs& in, const Results& results, const OpCase& c) {
  std::vector<Variable> roots, grad_outputs, leaves;
  for (size_t i = 0; i < c.grad_outputs.size(); ++i) {
    if (!c.grad_outputs[i].defined()) continue;
    roots.push_back(results.at(i));
    grad_outputs.push_back(as_dtype(c.grad_outputs[i], results[i].dtype()).to(results[i].device()));
  }
  for (const Variable& input : in.inputs)
    if (input.requires_grad()) leaves.push_back(input);
  const std::vector<Variable> found = grad(roots, leaves, grad_outputs);
  std::vector<Tensor> gradients;
  for (size_t i = 0, next = 0; i < in.inputs.size(); ++i)
    gradients.push_back(in.inputs[i].requires_grad() ? found[next++].value() : Tensor());
  return gradients;
}

std::vector<Tensor> values_of(const Results& results) {
  std::vector<Tensor> values;
  for (const Variable& result : results) values.push_back(result.value());
  return values;
}

bool representable(const OpCase& c, DType dtype) {
  for (const Tensor& input : c.inputs)
    if (is_floating(input.dtype()) && !holds_exactly(input, dtype)) return false;
  return true;
}

bool has_floating_input(const OpCase& c) {
  for (const Tensor& input : c.inputs)
    if (is_floating(input.dtype())) return true;
  return false;
}

}  // namespace tessera::test
