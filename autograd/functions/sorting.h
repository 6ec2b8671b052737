#pragma once

#include "autograd/variable.h"

namespace tessera {

/// What an order gives: the values, and where along the dimension each of them stood (i64).
struct SortedVariable {
  Variable values;
  Tensor indices;
};

/// All elements along `dim` in rising order, or falling; equals keep their order, a NaN counts as the
/// largest. Saves the indices.
SortedVariable sort(const Variable& x, int64_t dim = -1, bool descending = false);
/// The k largest along `dim` in falling order, or the k smallest in rising order. Saves the indices.
SortedVariable topk(const Variable& x, int64_t k, int64_t dim = -1, bool largest = true);
/// Element i is the sum of elements 0 to i along `dim`. Saves nothing.
Variable cumsum(const Variable& x, int64_t dim = -1);

}  // namespace tessera
