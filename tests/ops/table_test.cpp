#include <doctest/doctest.h>

#include "tests/ops/compare.h"
#include "tests/ops/run_case.h"

using namespace tessera;
using namespace tessera::test;

namespace {

std::string compare_all(const char* what, const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                        double tolerance) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].defined()) continue;
    const std::string problem = difference(got.at(i), expected[i], tolerance);
    if (!problem.empty()) return text(what, " ", i, ": ", problem);
  }
  return "";
}

/// Forward and gradients in `dtype` against the reference.
std::string check_reference(const OpRow& row, const OpCase& c, DType dtype,
                            Tensor (*layout)(const Tensor&) = nullptr) {
  const CaseInputs in = case_inputs(c, dtype, layout);
  const Results results = row.call(in);
  if (!c.outputs.empty() && results.size() != c.outputs.size())
    return text("got ", results.size(), " results, expected ", c.outputs.size());
  const std::string problem = compare_all("result", values_of(results), c.outputs, tolerance_of(row, dtype));
  if (!problem.empty() || c.grad_outputs.empty()) return problem;
  return compare_all("gradient", gradients_of(in, results, c), c.gradients, tolerance_of(row, dtype));
}

}  // namespace

TEST_CASE("op table: results and gradients are PyTorch's, in f64") {
  for_each_case([](const OpRow& row, const OpCase& c) { return check_reference(row, c, f64); });
}

TEST_CASE("op table: results and gradients are PyTorch's, in the narrower types") {
  for_each_case([](const OpRow& row, const OpCase& c) -> std::string {
    if (!has_floating_input(c)) return "";
    for (DType dtype : row.narrow) {
      if (!representable(c, dtype)) continue;
      const std::string problem = check_reference(row, c, dtype);
      if (!problem.empty()) return to_string(dtype) + ": " + problem;
    }
    return "";
  });
}

TEST_CASE("op table: inputs that are not contiguous give the same results") {
  for_each_case([](const OpRow& row, const OpCase& c) { return check_reference(row, c, f64, strided_copy); });
}

TEST_CASE("op table: a call on meta gives the shapes and dtypes of a call with values") {
  for_each_case([](const OpRow& row, const OpCase& c) -> std::string {
    const Results real = row.call(case_inputs(c, f32));
    const CaseInputs on_meta = case_inputs(c, f32, [](const Tensor& value) { return value.to(meta()); });
    if (row.shape_from_values) {
      CHECK_THROWS_AS(row.call(on_meta), DeviceError);
      return "";
    }
    const Results shapes = row.call(on_meta);
    if (shapes.size() != real.size())
      return text("got ", shapes.size(), " results on meta, expected ", real.size());
    for (size_t i = 0; i < real.size(); ++i) {
      // An op without inputs (arange) gets no tensor on meta.
      if (!c.inputs.empty() && !shapes[i].device().is_meta()) return text("result ", i, " is not on meta");
      if (shapes[i].shape() != real[i].shape() || shapes[i].dtype() != real[i].dtype())
        return text("result ", i, " is ", to_string(shapes[i]), ", expected ", to_string(real[i]));
    }
    return "";
  });
}

TEST_CASE("op table: an undefined operand is an error that says so, unless it may be left out") {
  for_each_case([](const OpRow& row, const OpCase& c) -> std::string {
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      CaseInputs in = case_inputs(c, f64);
      in.inputs[i] = Variable();
      try {
        row.call(in);
        if (in.required_inputs.contains(i)) return text("input ", i, ": no error");
      } catch (const ValueError& error) {
        if (std::string(error.what()).find("undefined") == std::string::npos)
          return text("input ", i, ": ", error.what());
      }
    }
    return "";
  });
}
