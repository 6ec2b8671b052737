#pragma once

#include "autograd/variable.h"

namespace tessera {

/// The result of `sort` or `topk`: values in order, and the index of each along the dimension of x.
using SortedVariable = ValuesAndIndices<Variable>;

/// All elements along `dim` in ascending order, or descending; equal ones keep their order, NaN counts as the
/// largest. Saves the indices.
SortedVariable sort(const Variable& x, int64_t dim = -1, bool descending = false);
/// The k largest along `dim` in descending order, or the k smallest in ascending order. Saves the indices.
SortedVariable topk(const Variable& x, int64_t k, int64_t dim = -1, bool largest = true);
/// Element i is the sum of elements 0 to i along `dim`. Saves nothing.
Variable cumsum(const Variable& x, int64_t dim = -1);

}  // namespace tessera
