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

}  // namespace tessera::test
