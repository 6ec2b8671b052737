#pragma once

#include <functional>
#include <string>

#include "tests/ops/table.h"

namespace tessera::test {

/// Runs `check` on every case of every row; what it answers is what is wrong, "" when nothing is. The
/// variable TESSERA_OP narrows the table to one op while it is being written.
void for_each_case(const std::function<std::string(const OpRow&, const OpCase&)>& check);

/// A case's inputs in another dtype (ids and masks as they are), each passed through `layout` where there is
/// one; leaves where the case has a gradient for them, or is differentiable.
Given given(const OpCase& c, DType dtype, Tensor (*layout)(const Tensor&) = nullptr);

}  // namespace tessera::test
