#pragma once  // internal

#include "autograd/variable.h"

namespace tessera::detail {

/// A Variable of the values of `x` that requires a gradient, for a function that is differentiated by it.
/// With `connected`, derivatives of the result reach x where that requires a gradient.
Variable own_input(const Variable& x, bool connected);

}  // namespace tessera::detail
