#pragma once

#include "autograd/variable.h"

namespace tessera {

/// exp(x) / sum(exp(x)) over `dim`, safe for rows of any magnitude. Saves the result.
Variable softmax(const Variable& x, int64_t dim = -1);
/// log(softmax(x)), without underflow of small probabilities. Saves the result.
Variable log_softmax(const Variable& x, int64_t dim = -1);

}  // namespace tessera
