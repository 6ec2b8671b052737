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

}  // namespace tessera::test
