#pragma once

#include <functional>
#include <string>

#include "tests/ops/table.h"

namespace tessera::test {

/// Runs `check` on every case of every row. It returns a description of the problem, "" for none. The
/// environment variable TESSERA_OP limits the table to one op.
void for_each_case(const std::function<std::string(const OpRow&, const OpCase&)>& check);

/// A case's inputs in another dtype (ids and masks unchanged), each passed through `layout` unless it is
/// null. An input is a leaf where the case has a gradient for it, or is differentiable and the input
/// floating.
CaseInputs case_inputs(const OpCase& c, DType dtype, Tensor (*layout)(const Tensor&) = nullptr);

/// The row's tolerance for results in `dtype`.
double tolerance_of(const OpRow& row, DType dtype);

/// The gradient of each input for the case's grad_outputs; undefined for inputs that are not leaves.
std::vector<Tensor> gradients_of(const CaseInputs& in, const Results& results, const OpCase& c);

/// The results' values.
std::vector<Tensor> values_of(const Results& results);

/// Whether `dtype` holds all floating inputs of the case.
bool representable(const OpCase& c, DType dtype);

/// Whether an input of the case is floating.
bool has_floating_input(const OpCase& c);

}  // namespace tessera::test
